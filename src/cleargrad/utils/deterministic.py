"""torch.utils.deterministic: whether new memory is filled so that programs which read it can be repeated."""

fill_uninitialized_memory = True
