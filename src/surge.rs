//! The surge (§6): how much room a node's Pods need, what Karpenter plans with, and the placeholder Pod that makes it
//! bring that room; whether it came; and what keeps an old node from draining.
