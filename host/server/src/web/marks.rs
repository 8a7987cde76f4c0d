//! What the layers of one request tell each other through its extensions, or those of its answer.

use kassette_domain::id::{KeyId, MerchantId, OperatorId, ResellerId};
use kassette_gateway::auth::{MerchantCaller, ResellerCaller};

/// What a request has shown, by what the log may tell of it: never the credential itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    Merchant {
        merchant: MerchantId,
        key: KeyId,
    },
    Reseller {
        reseller: ResellerId,
        key: KeyId,
    },
    /// An operator's token.
    Operator(OperatorId),
}

impl Credential {
    pub(crate) const fn merchant(self) -> Option<u64> {
        match self {
            Self::Merchant { merchant, .. } => Some(merchant.0),
            _ => None,
        }
    }

    pub(crate) const fn reseller(self) -> Option<u64> {
        match self {
            Self::Reseller { reseller, .. } => Some(reseller.0),
            _ => None,
        }
    }

    pub(crate) const fn key(self) -> Option<KeyId> {
        match self {
            Self::Merchant { key, .. } | Self::Reseller { key, .. } => Some(key),
            Self::Operator(_) => None,
        }
    }

    pub(crate) const fn operator(self) -> Option<OperatorId> {
        match self {
            Self::Operator(operator) => Some(operator),
            _ => None,
        }
    }
}

impl From<&MerchantCaller> for Credential {
    fn from(caller: &MerchantCaller) -> Self {
        Self::Merchant {
            merchant: caller.merchant.id,
            key: caller.key.id,
        }
    }
}

impl From<&ResellerCaller> for Credential {
    fn from(caller: &ResellerCaller) -> Self {
        Self::Reseller {
            reseller: caller.reseller.id,
            key: caller.key.id,
        }
    }
}

/// Put into the extensions of a 500: why, for the log. Callers never see it.
#[derive(Clone, Debug)]
pub(crate) struct InternalCause(pub(crate) String);

/// Put into the extensions of an answer: the connection is to be read again only after a pause. On
/// HTTP/2, where many requests share a connection, it is read more slowly once there were many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseReading;

/// Put into the extensions of a request: its sender holds too many bytes already, so it is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverBudget;
