"""Results beside the papers that they are measured by: the page of exp_logs/, tables of scores."""
