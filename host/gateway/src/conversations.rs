//! Records conversations with providers in the routing log if the settings ask for it.
//!
//! Payments do not wait for this: the outcome of a call is encoded into a batch in memory, which a worker
//! writes. If the memory limit is reached, the conversation is not recorded, and metrics count it.

use std::time::Duration;

use kassette_domain::conversation::{CallOutcome, Conversation, HostCall, ProviderCall};
use kassette_domain::id::PaymentId;
use kassette_domain::time::Time;
use kassette_runtime::{RecordedCall, Recorder};
use parking_lot::Mutex;

use crate::Gateway;
use crate::modules::Access;
use crate::routing_records::WaitingEntries;

/// Maximum number of bytes that wait to be written.
pub const WAITING_MOST: usize = 8 << 20;
/// Maximum size of one conversation, in bytes.
pub const MOST: usize = 256 << 10;
/// Maximum size of a recorded conversation about an unverified notice, in bytes. Any sender can cause one, so
/// at most one per second is recorded.
pub const UNPROVED_MOST: usize = 2 << 10;
const UNPROVED_EVERY: Duration = Duration::from_secs(1);

/// Conversations that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Conversations(Mutex<ConversationQueue>);

#[derive(Debug, Default)]
struct ConversationQueue {
    waiting: WaitingEntries,
    /// Earliest time at which the next unverified notice is recorded.
    next_unproved: Time,
}

impl Conversations {
    /// Queues a conversation. `Err` is the outcome label for the metric if it is not recorded.
    fn put(&self, conversation: &Conversation) -> Result<(), &'static str> {
        let bytes = size(conversation);
        let mut queue = self.0.lock();
        if let ProviderCall::Callback(_) = conversation.call {
            let proved = match &conversation.outcome {
                CallOutcome::Callback(Ok(reply)) => reply.proved,
                CallOutcome::Failed(_) => false,
                _ => return Err("unproved"),
            };
            let is_early = conversation.at() < queue.next_unproved;
            if !proved && (is_early || bytes > UNPROVED_MOST) {
                return Err("unproved");
            }
            if !proved {
                queue.next_unproved = conversation.at().after(UNPROVED_EVERY);
            }
        }
        if bytes > MOST || queue.waiting.bytes() + bytes > WAITING_MOST {
            return Err("dropped");
        }
        queue.waiting.push(conversation).map_err(|_| "dropped")?;
        Ok(())
    }
}

/// Approximate size of a conversation in bytes: the texts of others at full length, plus a kilobyte for the
/// gateway's own data.
fn size(conversation: &Conversation) -> usize {
    let of_headers = |headers: &[(String, String)]| -> usize {
        headers
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    };
    let of_exchange = |exchange: &HostCall| match exchange {
        HostCall::Http { request, answer } => {
            let answered = answer
                .as_ref()
                .map_or(0, |answer| of_headers(&answer.headers) + answer.body.len());
            request.url.len() + of_headers(&request.headers) + request.body.len() + answered
        }
        HostCall::Secret { .. } => 64,
    };
    let asked = match &conversation.call {
        ProviderCall::Callback(request) => {
            let address = request.path.len() + request.query.len();
            address + of_headers(&request.headers) + request.body.len()
        }
        ProviderCall::Start(_) | ProviderCall::Query { .. } => 0,
    };
    let exchanged: usize = conversation.exchanges.iter().map(of_exchange).sum();
    1024 + asked + exchanged
}

impl Gateway {
    /// Enables recording of the calls with this access if the settings ask for it.
    pub(crate) fn have_recorded(&self, access: &mut Access, payment: Option<PaymentId>) {
        if !self.settings().record_conversations {
            return;
        }
        let gateway = self.clone();
        access.recorder = Some(Recorder::new(move |recorded: RecordedCall| {
            let conversation = Conversation {
                payment,
                ..recorded.conversation
            };
            if let Err(why) = gateway.inner.conversations.put(&conversation) {
                count(why, 1);
            }
        }));
    }

    /// Writes the queued conversations. If the store does not accept them, they are lost, and metrics count
    /// them.
    pub(crate) async fn write_conversations(&self) {
        let batches = self.inner.conversations.0.lock().waiting.take(1);
        self.append("conversations", batches, count).await;
    }
}

fn count(outcome: &'static str, conversations: u64) {
    metrics::counter!("kassette_conversation_records_total", "outcome" => outcome)
        .increment(conversations);
}

#[cfg(test)]
mod tests {
    use kassette_domain::id::{AccountId, Digest, Slot};
    use kassette_domain::key::Environment;
    use kassette_domain::provider::{
        AccountFacts, CallbackFailure, CallbackReply, CallbackRequest, Verb,
    };

    use super::*;

    /// A callback of this size and time, with the module's result.
    fn callback(bytes: usize, at: u64, read: Result<bool, CallbackFailure>) -> Conversation {
        Conversation {
            slot: Slot::of_provider("vendor").unwrap(),
            digest: Digest([1; 32]),
            payment: None,
            account: AccountFacts {
                id: AccountId::parse("vendor-live").unwrap(),
                environment: Environment::Live,
                now: Time::from_millis(at),
                callback_url: String::new(),
                settings: vec![],
            },
            payer_hosts: vec![],
            plain_loopback: false,
            call: ProviderCall::Callback(CallbackRequest {
                verb: Verb::Post,
                path: String::new(),
                query: String::new(),
                headers: vec![("x".into(), "y".repeat(bytes / 2))],
                body: vec![0; bytes / 2],
            }),
            exchanges: vec![],
            outcome: CallOutcome::Callback(read.map(|proved| CallbackReply {
                proved,
                notices: vec![],
                status: 200,
                media_type: String::new(),
                body: String::new(),
            })),
        }
    }

    #[test]
    fn a_sender_who_proves_nothing_gets_a_small_callback_a_second_into_the_log() {
        let conversations = Conversations::default();
        let put = |bytes, at, read| conversations.put(&callback(bytes, at, read));
        let forged = || Err(CallbackFailure::Forged("no".into()));
        for (bytes, at, read, kept) in [
            (100, 5_000, forged(), Err("unproved")),
            (UNPROVED_MOST, 5_000, Ok(false), Err("unproved")),
            (900, 5_000, Ok(false), Ok(())),
            (100, 5_999, Ok(false), Err("unproved")),
            (100, 6_000, Ok(false), Ok(())),
            (UNPROVED_MOST, 6_000, Ok(true), Ok(())),
        ] {
            assert_eq!(put(bytes, at, read), kept, "{bytes} at {at}");
        }
        assert_eq!(conversations.0.lock().waiting.entries(), 3);
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_and_makes_room_when_it_is_taken() {
        let conversations = Conversations::default();
        let put = |bytes| conversations.put(&callback(bytes, 0, Ok(true)));
        assert_eq!(put(MOST), Err("dropped"), "one alone");
        let large = MOST - 2048;
        let taken = (0..1000).take_while(|_| put(large) == Ok(())).count();
        assert!((32..40).contains(&taken), "{taken}");
        conversations.0.lock().waiting.take(1);
        assert_eq!(put(large), Ok(()));
    }
}
