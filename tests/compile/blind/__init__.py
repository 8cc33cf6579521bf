"""Programs that try to tell apart how their calls are made, by somebody who had not seen the code."""
