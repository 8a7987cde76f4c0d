//! Values that the layers of a request pass to each other in the extensions of the request or the response.

use kassette_domain::id::{KeyId, MerchantId, OperatorId, ResellerId};
use kassette_gateway::auth::{MerchantCaller, ResellerCaller};

/// Authenticated identity of a request, as far as the log may contain it. Never the credential itself.
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

/// Extension of a 500 or 503 response: the cause, for the log. Callers never see it.
#[derive(Clone, Debug)]
pub(crate) struct InternalCause(pub(crate) String);

/// Extension of a response: reading from the connection pauses. On HTTP/2, where many requests share a connection,
/// a number of such responses slows reading down instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseReading;

/// Extension of a request that is rejected because the sender's byte budget is exhausted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverBudget;
