"""Closed forms of linear methods: modes, their trajectories, first passage."""
