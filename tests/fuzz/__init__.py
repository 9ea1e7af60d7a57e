"""The attack: inputs made from good ones by mutation, which luce reads or refuses, and never anything else."""
