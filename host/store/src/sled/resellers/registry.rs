//! Resellers themselves.

use kassette_domain::audit::Audited;
use kassette_domain::id::ResellerId;
use kassette_domain::reseller::Reseller;
use kassette_domain::time::Time;
use kassette_engine::Operation;

use crate::Fault;
use crate::rows::schema;
use crate::rows::source::{RowSource, Save as _};
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};

pub(crate) struct CreateReseller {
    pub(crate) name: String,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for CreateReseller {
    type Outcome = Reseller;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Reseller, Fault> {
        let last: u64 = rows.load(schema::resellers::COUNT)?.unwrap_or_default();
        let reseller = Reseller {
            id: ResellerId(last + 1),
            name: self.name,
            live_rollout: false,
            created_at: self.now,
        };
        rows.save(schema::resellers::COUNT.to_vec(), &reseller.id.0)?;
        rows.save(schema::resellers::reseller(reseller.id), &reseller)?;
        let audited = Audited {
            object: format!("reseller/{}", reseller.id),
            ..self.audited
        };
        audit::append(rows, audited, self.now)?;
        Ok(reseller)
    }
}

/// Switches a reseller's live rollout on or off.
pub(crate) struct SetLiveRollout {
    pub(crate) id: ResellerId,
    pub(crate) enabled: bool,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for SetLiveRollout {
    type Outcome = Option<Reseller>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let key = schema::resellers::reseller(self.id);
        let Some(mut reseller) = rows.load::<Reseller>(&key)? else {
            return Ok(None);
        };
        let shown = |on: bool| Some(format!("{{\"live_rollout\":{on}}}"));
        let audited = Audited {
            before: shown(reseller.live_rollout),
            after: shown(self.enabled),
            ..self.audited
        };
        reseller.live_rollout = self.enabled;
        rows.save(key, &reseller)?;
        audit::append(rows, audited, self.now)?;
        Ok(Some(reseller))
    }
}

/// A reseller by its number.
pub(crate) fn load(source: &impl RowSource, id: ResellerId) -> Result<Option<Reseller>, Fault> {
    source.load(&schema::resellers::reseller(id))
}
