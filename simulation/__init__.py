"""Whole clusters under churn, at flow level."""
