//! Types and rules of Kassette: no I/O, no clock, no async.
//!
//! Everything that decides about money stands here as plain values and pure functions: what an
//! amount is, which state may follow which, what an operator may allow, which routing answers of a
//! module are believed. The store loads, calls, saves; the gateway sequences; neither holds a rule.
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
pub mod id;
pub mod invitation;
pub mod key;
pub mod lifecycle;
pub mod merchant;
pub mod method;
pub mod money;
pub mod operator;
pub mod order;
pub mod payment;
pub mod policy;
pub mod provider;
pub mod rates;
pub mod refund;
pub mod release;
pub mod reseller;
pub mod returns;
pub mod routing;
pub mod secret;
pub mod setting;
pub mod signing;
pub mod site;
pub mod text;
pub mod time;
pub mod webhook;
pub mod work;
