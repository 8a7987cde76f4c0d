//! Consent codes. Issuing a code removes expired ones.

use kassette_domain::audit::Audited;
use kassette_domain::consent::ConsentCode;
use kassette_domain::time::Time;
use kassette_engine::{IVec, Operation, Span};

use crate::Fault;
use crate::resellers::MAX_SWEPT;
use crate::rows::schema;
use crate::rows::source::Save as _;
use crate::sled::audit;
use crate::sled::memory::{Memory, Rows};

pub(crate) struct IssueConsentCode {
    pub(crate) code: ConsentCode,
    pub(crate) audited: Audited,
    pub(crate) now: Time,
}

impl Operation<Memory> for IssueConsentCode {
    type Outcome = bool;

    fn apply(self, rows: &mut Rows<'_>) -> Result<bool, Fault> {
        let code = self.code;
        if rows.get(&schema::merchant(code.merchant))?.is_none() {
            return Ok(false);
        }
        sweep(rows, self.now)?;
        let row = schema::resellers::consent(code.handle);
        if rows.get(&row)?.is_some() {
            return Err(Fault::Unavailable("the code is in use".into()));
        }
        rows.save(row, &code)?;
        let end = schema::resellers::consent_end(code.expires_at, code.handle);
        rows.put(end, IVec::default());
        audit::append(rows, self.audited, self.now)?;
        Ok(true)
    }
}

fn sweep(rows: &mut Rows<'_>, now: Time) -> Result<(), Fault> {
    let ends = Span::prefix(schema::resellers::CONSENT_ENDS);
    for (key, _) in rows.scan(&ends, MAX_SWEPT as usize)? {
        let Some((at, handle)) = schema::resellers::read_consent_end(&key) else {
            continue;
        };
        if now < at {
            break;
        }
        rows.remove(schema::resellers::consent(handle));
        rows.remove(key);
    }
    Ok(())
}
