"""What a person holds to look at programs and machines: commands, checkers, profiles."""
