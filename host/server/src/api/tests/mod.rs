//! The router in one process, over a real store and without any module.

mod account;
mod callbacks;
mod connect;
mod document;
mod edges;
mod payments;
mod refunds;
mod releases;
mod resellers;
mod world;
