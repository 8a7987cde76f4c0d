//! The router in this process, with a real store and without modules.

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
