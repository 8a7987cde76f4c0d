//! Movements of money: the append-only ledger, and the balance that follows from it.
//!
//! A movement is written in the transaction of the change that causes it and never changes. Its id is derived from
//! its identity (account, object at the provider, kind, number of this kind for the object), so that a repeated
//! report, also after a restore, gives the same movement.

use serde::{Deserialize, Serialize};

use crate::id::{AccountId, AttemptId, MerchantId, MovementId, PaymentId};
use crate::key::Environment;
use crate::money::Minor;
use crate::time::Time;

/// Kind of a movement. Stored by number: new kinds are added at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MovementKind {
    Captured,
    CaptureReversed,
    Refunded,
    RefundReversed,
    DisputeOpened,
    FundsWithdrawn,
    FundsReinstated,
    DisputeClosed,
    ProviderFee,
    ProviderFeeReversed,
    PlatformFee,
    PlatformFeeReversed,
    Payout,
    Correction,
    /// Money moved between buckets.
    Reassigned,
}

impl MovementKind {
    pub const ALL: [Self; 15] = [
        Self::Captured,
        Self::CaptureReversed,
        Self::Refunded,
        Self::RefundReversed,
        Self::DisputeOpened,
        Self::FundsWithdrawn,
        Self::FundsReinstated,
        Self::DisputeClosed,
        Self::ProviderFee,
        Self::ProviderFeeReversed,
        Self::PlatformFee,
        Self::PlatformFeeReversed,
        Self::Payout,
        Self::Correction,
        Self::Reassigned,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Captured => "captured",
            Self::CaptureReversed => "capture_reversed",
            Self::Refunded => "refunded",
            Self::RefundReversed => "refund_reversed",
            Self::DisputeOpened => "dispute_opened",
            Self::FundsWithdrawn => "funds_withdrawn",
            Self::FundsReinstated => "funds_reinstated",
            Self::DisputeClosed => "dispute_closed",
            Self::ProviderFee => "provider_fee",
            Self::ProviderFeeReversed => "provider_fee_reversed",
            Self::PlatformFee => "platform_fee",
            Self::PlatformFeeReversed => "platform_fee_reversed",
            Self::Payout => "payout",
            Self::Correction => "correction",
            Self::Reassigned => "reassigned",
        }
    }

    /// Parses a wire name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The effect on the balance at the account; `None` for a correction, which names its own.
    pub const fn effect(self) -> Option<Effect> {
        match self {
            Self::Captured
            | Self::RefundReversed
            | Self::FundsReinstated
            | Self::ProviderFeeReversed => Some(Effect::In),
            Self::CaptureReversed
            | Self::Refunded
            | Self::FundsWithdrawn
            | Self::ProviderFee
            | Self::Payout => Some(Effect::Out),
            Self::DisputeOpened
            | Self::DisputeClosed
            | Self::PlatformFee
            | Self::PlatformFeeReversed
            | Self::Reassigned => Some(Effect::None),
            Self::Correction => None,
        }
    }
}

/// Direction in which a movement changes the balance at the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    In,
    Out,
    None,
}

impl Effect {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::None => "none",
        }
    }
}

/// Classification of an attempt's money. Stored by number: new buckets are added at the end.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Bucket {
    /// The payment's own money.
    #[default]
    Own,
    /// More than the due amount.
    Excess,
    /// Money of another attempt than the paid one, or of a declined payment.
    Surplus,
    /// Money that arrived after the payment had ended.
    Late,
}

impl Bucket {
    pub const ALL: [Self; 4] = [Self::Own, Self::Excess, Self::Surplus, Self::Late];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Excess => "excess",
            Self::Surplus => "surplus",
            Self::Late => "late",
        }
    }

    /// Parses a wire name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bucket| bucket.as_str() == text)
    }
}

/// How the gateway learned of a movement. Stored by number: new sources are added at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Notification,
    #[default]
    Query,
    /// The provider's response to a start or a refund.
    Answer,
    Operator,
}

impl Source {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Notification => "notification",
            Self::Query => "query",
            Self::Answer => "answer",
            Self::Operator => "operator",
        }
    }
}

/// An immutable entry of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Movement {
    pub id: MovementId,
    pub account: AccountId,
    pub environment: Environment,
    /// `None` for money of a payment that the store does not know.
    pub merchant: Option<MerchantId>,
    pub payment: Option<PaymentId>,
    pub attempt: Option<AttemptId>,
    pub kind: MovementKind,
    pub effect: Effect,
    /// `None` for fees and payouts.
    pub bucket: Option<Bucket>,
    /// Only for [`MovementKind::Reassigned`].
    pub from_bucket: Option<Bucket>,
    /// Minor units of `currency`, more than zero.
    pub amount: Minor,
    /// The provider's code.
    pub currency: String,
    /// The provider's ids, as its statements print them.
    pub provider_references: Vec<String>,
    /// Time by the provider's clock, or of the report if the provider gave none.
    pub occurred_at: Time,
    /// Time at which the gateway booked it; never before `closed_until`.
    pub booked_at: Time,
    pub source: Source,
}

/// Number of booked movements of one object at the provider, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booked(Vec<(MovementKind, u16)>);

impl Booked {
    /// Whether a movement of a kind is booked.
    pub(crate) fn has(&self, kind: MovementKind) -> bool {
        self.0.iter().any(|(known, _)| *known == kind)
    }

    /// Number of the next movement of a kind, counted from 0.
    pub(crate) fn next(&mut self, kind: MovementKind) -> u16 {
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| *known == kind) {
            let number = *count;
            *count = count.saturating_add(1);
            return number;
        }
        self.0.push((kind, 1));
        0
    }
}

impl MovementId {
    /// Id of the `number`th movement of a kind for an object. `object` is unique at the account.
    pub fn derived(account: &AccountId, object: &str, kind: MovementKind, number: u16) -> Self {
        use sha2::Digest as _;
        let hash: [u8; 32] = sha2::Sha256::new()
            .chain_update(account.as_str())
            .chain_update([0])
            .chain_update(object)
            .chain_update([0])
            .chain_update(kind.as_str())
            .chain_update(number.to_be_bytes())
            .finalize()
            .into();
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        Self::from_bytes(id)
    }
}

/// Received and returned amounts of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// Captures, and money from other buckets.
    pub received: Minor,
    /// Reversed captures, refunds and withdrawals, less the amounts that came back.
    pub returned: Minor,
}

impl Sums {
    /// Received less returned, in minor units; negative if more was returned than received.
    pub const fn net(self) -> i128 {
        self.received.0 as i128 - self.returned.0 as i128
    }
}

/// Sums of an attempt by bucket. They follow from the attempt's movements only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance([Sums; 4]);

impl Balance {
    /// Sum of the movements of one attempt in one currency, regardless of their order.
    pub fn from_movements<'m>(movements: impl IntoIterator<Item = &'m Movement>) -> Self {
        let (mut balance, mut less) = (Self::default(), Self::default());
        for movement in movements {
            balance.count(
                &mut less,
                (movement.kind, movement.effect),
                (movement.bucket, movement.from_bucket),
                movement.amount,
            );
        }
        balance.take_off(less);
        balance
    }

    pub const fn bucket(&self, bucket: Bucket) -> Sums {
        self.0[bucket as usize]
    }

    /// Sum of all buckets.
    pub fn total(&self) -> Sums {
        let mut total = Sums::default();
        for sums in self.0 {
            total.received = total.received.plus(sums.received);
            total.returned = total.returned.plus(sums.returned);
        }
        total
    }

    /// Adds one movement.
    pub(crate) fn apply(
        &mut self,
        kind: MovementKind,
        effect: Effect,
        bucket: Option<Bucket>,
        from: Option<Bucket>,
        amount: Minor,
    ) {
        let mut less = Self::default();
        self.count(&mut less, (kind, effect), (bucket, from), amount);
        self.take_off(less);
    }

    /// Adds one movement; amounts to subtract are added to `less`.
    fn count(
        &mut self,
        less: &mut Self,
        (kind, effect): (MovementKind, Effect),
        (bucket, from): (Option<Bucket>, Option<Bucket>),
        amount: Minor,
    ) {
        let Some(bucket) = bucket else { return };
        match kind {
            MovementKind::Captured => self.at(bucket).received.add(amount),
            MovementKind::CaptureReversed
            | MovementKind::Refunded
            | MovementKind::FundsWithdrawn => self.at(bucket).returned.add(amount),
            MovementKind::RefundReversed | MovementKind::FundsReinstated => {
                less.at(bucket).returned.add(amount);
            }
            MovementKind::Correction if effect == Effect::In => {
                self.at(bucket).received.add(amount);
            }
            MovementKind::Correction => self.at(bucket).returned.add(amount),
            MovementKind::Reassigned => {
                self.at(bucket).received.add(amount);
                if let Some(from) = from {
                    less.at(from).received.add(amount);
                }
            }
            MovementKind::DisputeOpened
            | MovementKind::DisputeClosed
            | MovementKind::ProviderFee
            | MovementKind::ProviderFeeReversed
            | MovementKind::PlatformFee
            | MovementKind::PlatformFeeReversed
            | MovementKind::Payout => {}
        }
    }

    fn take_off(&mut self, less: Self) {
        for (sums, less) in self.0.iter_mut().zip(less.0) {
            sums.received = sums.received.less(less.received);
            sums.returned = sums.returned.less(less.returned);
        }
    }

    const fn at(&mut self, bucket: Bucket) -> &mut Sums {
        &mut self.0[bucket as usize]
    }
}

/// State of the money of one or more buckets, for all rules about money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub received: Minor,
    pub returned: Minor,
    /// The part of open disputes that is not withdrawn yet.
    pub at_risk: Minor,
    /// The part of `at_risk` that a refund would not end.
    pub at_risk_despite_refund: Minor,
    /// Pending refunds, less their paid-out part.
    pub committed: Minor,
}

impl Position {
    /// Received less returned, in minor units.
    pub const fn net(self) -> i128 {
        self.received.0 as i128 - self.returned.0 as i128
    }

    /// Money with which a payment can be completed: net less committed refunds, at least zero.
    pub fn for_completion(self) -> Minor {
        positive(self.net() - i128::from(self.committed.0))
    }

    /// Refundable money: net less committed refunds, less open disputes that a refund does not end; at least zero.
    pub fn refundable(self) -> Minor {
        positive(
            self.net() - i128::from(self.committed.0) - i128::from(self.at_risk_despite_refund.0),
        )
    }
}

impl std::ops::Add for Position {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            received: self.received.plus(other.received),
            returned: self.returned.plus(other.returned),
            at_risk: self.at_risk.plus(other.at_risk),
            at_risk_despite_refund: self
                .at_risk_despite_refund
                .plus(other.at_risk_despite_refund),
            committed: self.committed.plus(other.committed),
        }
    }
}

/// Converts a signed amount; negative ones become zero.
pub(crate) fn positive(net: i128) -> Minor {
    Minor(u64::try_from(net.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_and_has_a_number_of_its_own() {
        for (number, kind) in MovementKind::ALL.into_iter().enumerate() {
            assert_eq!(MovementKind::parse(kind.as_str()), Some(kind));
            assert_eq!(kind as usize, number, "stored numbers do not change");
        }
    }

    #[test]
    fn the_id_of_a_movement_follows_from_what_it_is_about() {
        let account = AccountId::parse("stripe-live").unwrap();
        let id = |object, kind, number| MovementId::derived(&account, object, kind, number);
        let first = id("capture ch_1", MovementKind::Captured, 0);
        assert_eq!(first, id("capture ch_1", MovementKind::Captured, 0));
        assert_ne!(first, id("capture ch_1", MovementKind::Captured, 1));
        assert_ne!(first, id("capture ch_2", MovementKind::Captured, 0));
        assert_ne!(first, id("capture ch_1", MovementKind::CaptureReversed, 0));
    }

    #[test]
    fn reassigned_money_leaves_one_bucket_and_enters_the_other() {
        let mut balance = Balance::default();
        let amount = Minor(80);
        balance.apply(
            MovementKind::Captured,
            Effect::In,
            Some(Bucket::Late),
            None,
            amount,
        );
        balance.apply(
            MovementKind::Reassigned,
            Effect::None,
            Some(Bucket::Own),
            Some(Bucket::Late),
            amount,
        );
        assert_eq!(balance.bucket(Bucket::Own).net(), 80);
        assert_eq!(balance.bucket(Bucket::Late).net(), 0);
        assert_eq!(balance.total().net(), 80);
    }
}
