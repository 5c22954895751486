//! What `infer bench` shows.

pub(crate) mod row;
