"""The best ranker on data nobody has seen: cross-fitted members, and a blend of them learned on out-of-fold scores.

`members` says what there is to blend, `plan` how much of it the data and the budget allow, `crossfit` fits a member on
all folds, `weights` learns the blend and what it will be worth, `calibration` makes probabilities of its scores, and
`trainer` joins them into one trainer, which is the system `auto`.
"""
