"""Studies of the evidence base: what rules lose in it, why this rule, one picture, and studies as rows of its table."""
