"""Every known sweep over Adam's betas, ours and others', as data; and what they say of a rule. Pure Python."""
