mod agreement;
mod fleet;
