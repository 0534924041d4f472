"""What a study is: the record of a run, its identity, the folder, the long table, L(beta), and which beta is best.

Whatever trains writes it, whatever analyses reads it, and what is decided here is decided nowhere else. No torch.
"""
