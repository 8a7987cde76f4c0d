//! Types and rules of Kassette: no I/O, no clock, no async.
//!
//! All rules about money are plain values and pure functions in this crate: the form of amounts, legal state
//! transitions, limits of what operators may allow, checks of routing results. The store loads and saves, the
//! gateway orders the calls; neither contains a rule.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod attempt;
pub mod audit;
pub mod brand;
pub mod candidate;
pub mod connect;
pub mod consent;
pub mod conversation;
pub mod decline;
pub mod delegation;
pub mod event;
pub mod extras;
pub mod funds;
pub mod id;
pub mod invitation;
pub mod key;
pub mod lifecycle;
pub mod merchant;
pub mod method;
pub mod money;
pub mod movement;
pub mod operator;
pub mod order;
pub mod payment;
pub mod pending_callback;
pub mod policy;
pub mod provider;
pub mod question;
pub mod rates;
pub mod refund;
pub mod release;
pub mod reseller;
pub mod routing;
pub mod secret;
pub mod setting;
pub mod signing;
pub mod site;
pub mod text;
pub mod time;
pub mod webhook;
pub mod work;
