"""The demo: two clusters, orders flowing from one to the other, and a judgement of what arrived."""
