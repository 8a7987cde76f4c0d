//! Compares rows about permissions with the newest entries of the audit log. A row's MAC does not show that
//! the row is the newest version, so `verify` makes this comparison.

use std::collections::{BTreeMap, BTreeSet};

use kassette_domain::audit::{AuditEntry, AuditedSlot};
use kassette_domain::delegation::{Delegation, DelegationStatus};
use kassette_domain::id::{AccountId, KeyId, MerchantId, OperatorId, ResellerId, Slot};
use kassette_domain::key::ApiKey;
use kassette_domain::merchant::Merchant;
use kassette_domain::operator::Operator;
use kassette_domain::reseller::Reseller;
use serde_json::Value;

const OPERATOR: &str = "its newest entry of the audit log says something else of the operator";
const KEY: &str = "the newest entry of the audit log about the key says that it was revoked";
const APPROVAL: &str =
    "the newest entry of the audit log about its live approval says something else";
const ROLLOUT: &str =
    "the newest entry of the audit log about its live rollout says something else";
const DELEGATION: &str =
    "the newest entry of the audit log about the delegation says something else";
const SWITCH: &str = "the newest entry of the audit log about the account says something else";
/// Finding about a missing row.
pub(crate) const GONE: &str = "it is missing, and the audit log does not say that it was removed";

/// The newest entries so far. Entries must be added in order.
#[derive(Default)]
pub(crate) struct NewestEntries {
    /// Roles. `None` for a removed operator.
    operators: BTreeMap<OperatorId, Option<String>>,
    revoked: BTreeSet<KeyId>,
    approvals: BTreeMap<MerchantId, bool>,
    rollouts: BTreeMap<ResellerId, bool>,
    delegations: BTreeMap<(ResellerId, MerchantId), bool>,
    switches: BTreeMap<AccountId, bool>,
    slots: BTreeMap<Slot, AuditedSlot>,
}

impl NewestEntries {
    pub(crate) fn note(&mut self, entry: &AuditEntry) {
        let audited = &entry.audited;
        let Some((noun, id)) = audited.object.split_once('/') else {
            return;
        };
        let after = audited.after.as_deref().map(serde_json::from_str::<Value>);
        let after = after.and_then(Result::ok);
        let after = |field: &str| after.as_ref().and_then(|after| after.get(field));
        let is_on = |field: &str| after(field).and_then(Value::as_bool);
        match noun {
            "operator" => {
                let Ok(id) = OperatorId::parse(id) else {
                    return;
                };
                let role = after("role").and_then(Value::as_str).map(str::to_owned);
                if audited.action == "operator.delete" {
                    self.operators.insert(id, None);
                } else if role.is_some() {
                    self.operators.insert(id, role);
                }
            }
            "key" if audited.action == "key.revoke" => {
                self.revoked.extend(KeyId::parse(id));
            }
            "merchant" => {
                let id = id.parse().map(MerchantId);
                self.approvals.extend(id.ok().zip(is_on("live_approved")));
            }
            "reseller" if let Some((reseller, merchant)) = id.split_once("/delegation/") => {
                let status = after("status").and_then(Value::as_str);
                let between = reseller.parse().ok().zip(merchant.parse().ok());
                if let (Some((reseller, merchant)), Some(status)) = (between, status) {
                    let between = (ResellerId(reseller), MerchantId(merchant));
                    let is_authorized = status == DelegationStatus::Authorized.as_str();
                    self.delegations.insert(between, is_authorized);
                }
            }
            "reseller" => {
                let id = id.parse().map(ResellerId);
                self.rollouts.extend(id.ok().zip(is_on("live_rollout")));
            }
            "provider" => {
                let id = AccountId::parse(id);
                self.switches.extend(id.ok().zip(is_on("enabled")));
            }
            "plugin" => {
                if let Some(slot) = Slot::parse(id) {
                    self.slots.entry(slot).or_default().follow(entry);
                }
            }
            _ => {}
        }
    }

    /// Finding about an operator's row.
    pub(crate) fn operator(&self, operator: &Operator) -> Option<&'static str> {
        match self.operators.get(&operator.id) {
            Some(role) if role.as_deref() != Some(operator.role.as_str()) => Some(OPERATOR),
            _ => None,
        }
    }

    /// Finding about a key's row.
    pub(crate) fn key(&self, key: &ApiKey) -> Option<&'static str> {
        (self.revoked.contains(&key.id) && key.revoked_at.is_none()).then_some(KEY)
    }

    /// Finding about a merchant's row.
    pub(crate) fn merchant(&self, merchant: &Merchant) -> Option<&'static str> {
        let said = self.approvals.get(&merchant.id);
        said.is_some_and(|said| *said != merchant.live_approved)
            .then_some(APPROVAL)
    }

    /// Finding about a reseller's row.
    pub(crate) fn reseller(&self, reseller: &Reseller) -> Option<&'static str> {
        let said = self.rollouts.get(&reseller.id);
        said.is_some_and(|said| *said != reseller.live_rollout)
            .then_some(ROLLOUT)
    }

    /// Finding about a delegation's row.
    pub(crate) fn delegation(&self, delegation: &Delegation) -> Option<&'static str> {
        let between = (delegation.reseller, delegation.merchant);
        let is_authorized = delegation.status() == DelegationStatus::Authorized;
        let said = self.delegations.get(&between);
        said.is_some_and(|said| *said != is_authorized)
            .then_some(DELEGATION)
    }

    /// Finding about a switch's row.
    pub(crate) fn switch(&self, account: &AccountId, enabled: bool) -> Option<&'static str> {
        let said = self.switches.get(account);
        said.is_some_and(|said| *said != enabled).then_some(SWITCH)
    }

    /// Operators whose rows must exist.
    pub(crate) fn operators(&self) -> impl Iterator<Item = OperatorId> {
        let operators = self.operators.iter().filter(|(_, role)| role.is_some());
        operators.map(|(id, _)| *id)
    }

    /// Delegations whose rows must exist, because delegations are never removed.
    pub(crate) fn delegations(&self) -> impl Iterator<Item = (ResellerId, MerchantId)> {
        self.delegations.keys().copied()
    }

    /// Accounts whose switches must exist, because they are off.
    pub(crate) fn switched_off(&self) -> impl Iterator<Item = &AccountId> {
        let switches = self.switches.iter().filter(|(_, enabled)| !**enabled);
        switches.map(|(account, _)| account)
    }

    /// State of each module slot according to the log.
    pub(crate) const fn slots(&self) -> &BTreeMap<Slot, AuditedSlot> {
        &self.slots
    }

    /// The same, by value.
    pub(crate) fn into_slots(self) -> BTreeMap<Slot, AuditedSlot> {
        self.slots
    }
}
