"""The parts of the store contract, one topic per module; `testing.store_contract` joins them."""
