"""Predictors of resource use, iteration times and stragglers. They are pure, like the strategies that call them."""
