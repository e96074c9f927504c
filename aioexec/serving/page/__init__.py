"""The page for a person at `/` of a model server: models and a form to try them, plots, graphs, and the timeline of a step."""
