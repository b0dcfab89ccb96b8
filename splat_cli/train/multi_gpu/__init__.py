"""Training on several ranks, each with a share of the splats and of the views of a batch.

In reading order: `sharded` joins the ranks to a trainer, with their batches and the scores for density control;
`sharded_views` renders the views of a batch and exchanges projected splats and gradients; `shares` moves whole splats.
"""
