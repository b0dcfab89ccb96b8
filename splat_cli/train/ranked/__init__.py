"""Training on several ranks, each with a share of the splats and of the views of a batch.

In reading order: `sharded` joins the ranks to a trainer; `ranked_step` is a batch and `ranked_views` its views;
`exchange` moves projected splats and gradients, `shares` whole splats; `ranked_scores` scores them for density control.
"""
