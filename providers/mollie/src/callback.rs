//! The webhook. It carries a payment's id and no signature: anybody can write one, so it proves
//! nothing and only makes the host ask.
use kassette_plugin::encode;
use kassette_plugin::provider::{Acknowledged, Incoming, Notice, Refused, Subject, Verb};

use crate::wire;

/// Reads one call of the webhook.
pub(crate) fn read(incoming: &Incoming) -> Result<Acknowledged, Refused> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(Refused::Malformed("not a POST".into()));
    }
    let fields = std::str::from_utf8(&incoming.body)
        .ok()
        .and_then(encode::parse_form)
        .ok_or_else(|| Refused::Malformed("the body is no form".into()))?;
    let mut ids = fields.iter().filter(|(name, _)| name == "id");
    let (Some((_, id)), None) = (ids.next(), ids.next()) else {
        return Err(Refused::Malformed("there is not exactly one id".into()));
    };
    // Payment links, orders and subscriptions have ids of other kinds; none of them is ours.
    let notices = match wire::is_id(id) {
        true => vec![Notice {
            about: Subject::Reference(id.clone()),
            report: None,
        }],
        false => Vec::new(),
    };
    Ok(Acknowledged {
        notices,
        status: 200,
        media_type: "text/plain".into(),
        body: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(body: &[u8]) -> Incoming {
        Incoming {
            verb: Verb::Post,
            path: String::new(),
            query: String::new(),
            headers: vec![(
                "content-type".into(),
                "application/x-www-form-urlencoded".into(),
            )],
            body: body.to_vec(),
        }
    }

    #[test]
    fn a_call_names_a_payment_and_proves_nothing() {
        let answer = read(&incoming(b"id=tr_5B8cwPMGnU6qLbRvo7qEZo")).unwrap();
        assert_eq!(
            answer.notices,
            [Notice {
                about: Subject::Reference("tr_5B8cwPMGnU6qLbRvo7qEZo".into()),
                report: None,
            }]
        );
        assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    }

    #[test]
    fn whatever_else_a_call_claims_is_not_read() {
        let answer = read(&incoming(b"id=tr_1&status=paid&amount=49.90")).unwrap();
        assert_eq!(answer.notices.len(), 1);
        assert!(answer.notices.iter().all(|notice| notice.report.is_none()));
    }

    #[test]
    fn other_things_are_acknowledged_and_ignored() {
        for body in ["id=ord_1", "id=pl_1", "id=sub_1", "id=tr_..%2F1", "id="] {
            let answer = read(&incoming(body.as_bytes())).unwrap();
            assert_eq!((answer.notices.len(), answer.status), (0, 200), "{body}");
        }
    }

    #[test]
    fn what_mollie_does_not_send_is_malformed() {
        for body in [
            &b""[..],
            b"{}",
            b"ID=tr_1",
            b"id=tr_1&id=tr_2",
            b"id=%zz",
            b"\xff",
        ] {
            assert!(matches!(read(&incoming(body)), Err(Refused::Malformed(_))));
        }
        let get = Incoming {
            verb: Verb::Get,
            ..incoming(b"id=tr_1")
        };
        assert!(matches!(read(&get), Err(Refused::Malformed(_))));
    }
}
