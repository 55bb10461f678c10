"""Predictors foresee resources and iteration times; pure, like the strategies that ask them."""
