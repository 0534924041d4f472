"""Every known sweep over Adam's betas, ours and others', as data; and how rules do in them. Pure Python."""
