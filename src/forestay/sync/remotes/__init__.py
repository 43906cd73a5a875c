"""Where packs are stored: a folder or a bucket. Main modules: `port`, `folder`, `s3`."""
