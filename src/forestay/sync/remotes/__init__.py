"""Where packs are put: a folder or a bucket. Main modules: `port`, `folder`, `s3`."""
