//! Who runs when: the functions of one token run one after the other, each in a task of its own that goes on when its
//! caller goes away; whoever asks for a function that runs or waits already, with the same arguments, joins it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use daemon::error::{bug, site};
use model::Token;
use model::phase::Function;
use tokio::sync::watch;
use wire::control::{ApiError, ErrorCode};

/// What two calls must have in common to be one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    /// The function.
    pub function: Function,
    /// A call in a hurry does not join one that is patient.
    pub hurry: bool,
    /// All that it was called with, in one text: whoever asks for something else is judged by that, after this one.
    pub arguments: String,
}

/// Tells a function that it is to stop.
pub(crate) type Cancelled = watch::Receiver<bool>;

type Outcome = Option<Result<(), ApiError>>;

/// The queues of all tokens, each with one call that runs.
#[derive(Default)]
pub(crate) struct TokenQueues {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    tokens: HashMap<Token, Line>,
    closed: bool,
}

#[derive(Default)]
struct Line {
    head: Arc<tokio::sync::Mutex<()>>,
    jobs: HashMap<Call, Job>,
}

struct Job {
    outcome: watch::Receiver<Outcome>,
    cancel: watch::Sender<bool>,
    running: bool,
}

impl TokenQueues {
    /// Runs `work` when the calls of the token before it are done, or joins the same call, and replies its result.
    ///
    /// # Errors
    /// What the work fails with; [`TokenQueues::close`]d; a panic of the work.
    pub(crate) async fn run<F>(
        self: &Arc<Self>,
        token: &Token,
        call: Call,
        work: impl FnOnce(Cancelled) -> F + Send + 'static,
    ) -> Result<(), ApiError>
    where
        F: Future<Output = Result<(), ApiError>> + Send + 'static,
    {
        let function = call.function;
        let mut outcome = self.join_or_start(token, call, work)?;
        let done = outcome.wait_for(Option::is_some).await;
        let done = done.map_err(|_| {
            bug(ErrorCode::FunctionLost, format!("{function:?} of session {token} broke off"))
        })?;
        done.clone().unwrap_or(Ok(()))
    }

    /// Asks the calls of `function` that run or wait to stop, and waits until they have. Replies whether there was one.
    pub(crate) async fn cancel(&self, token: &Token, function: Function) -> bool {
        let jobs: Vec<_> = {
            let table = self.lock();
            let jobs = table.tokens.get(token).map(|line| line.jobs.iter()).into_iter().flatten();
            let cancelled = jobs.filter(|(call, _)| call.function == function);
            cancelled.map(|(_, job)| (job.cancel.clone(), job.outcome.clone())).collect()
        };
        for (cancel, outcome) in &jobs {
            cancel.send_replace(true);
            let _ = outcome.clone().wait_for(Option::is_some).await;
        }
        !jobs.is_empty()
    }

    /// The function of the token that runs now.
    pub(crate) fn running(&self, token: &Token) -> Option<Function> {
        let table = self.lock();
        table.tokens.get(token)?.jobs.iter().find(|(_, job)| job.running).map(|(call, _)| call.function)
    }

    /// Refuses all further calls.
    ///
    /// # Errors
    /// A token whose function runs or waits; then nothing is refused.
    pub(crate) fn close(&self) -> Result<(), Token> {
        let mut table = self.lock();
        match table.tokens.iter().find(|(_, line)| !line.jobs.is_empty()) {
            Some((token, _)) => Err(token.clone()),
            None => {
                table.closed = true;
                Ok(())
            }
        }
    }

    /// Accepts calls again.
    pub(crate) fn reopen(&self) {
        self.lock().closed = false;
    }

    fn join_or_start<F>(
        self: &Arc<Self>,
        token: &Token,
        call: Call,
        work: impl FnOnce(Cancelled) -> F + Send + 'static,
    ) -> Result<watch::Receiver<Outcome>, ApiError>
    where
        F: Future<Output = Result<(), ApiError>> + Send + 'static,
    {
        let mut table = self.lock();
        if table.closed {
            return Err(site(
                ErrorCode::Stopping,
                "the control service is stopping",
                "try again in a moment",
            ));
        }
        let line = table.tokens.entry(token.to_owned()).or_default();
        if let Some(job) = line.jobs.get(&call) {
            return Ok(job.outcome.clone());
        }
        let (shown, outcome) = watch::channel(None);
        let (cancel, cancelled) = watch::channel(false);
        line.jobs.insert(call.clone(), Job { outcome: outcome.clone(), cancel, running: false });
        let (queues, head, token) = (Arc::clone(self), Arc::clone(&line.head), token.to_owned());
        tokio::spawn(async move {
            let _first = head.lock_owned().await;
            queues.mark_running(&token, &call);
            // A task of its own, so that a panic in the work does not leave the call in the table.
            let result = tokio::spawn(work(cancelled)).await;
            let result =
                result.unwrap_or_else(|error| Err(bug(ErrorCode::FunctionPanicked, error.to_string())));
            queues.remove(&token, &call);
            shown.send_replace(Some(result));
        });
        Ok(outcome)
    }

    fn mark_running(&self, token: &Token, call: &Call) {
        if let Some(job) = self.lock().tokens.get_mut(token).and_then(|line| line.jobs.get_mut(call)) {
            job.running = true;
        }
    }

    fn remove(&self, token: &Token, call: &Call) {
        let mut table = self.lock();
        let Some(line) = table.tokens.get_mut(token) else { return };
        line.jobs.remove(call);
        if line.jobs.is_empty() {
            table.tokens.remove(token);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::Notify;

    const IN: Call = Call { function: Function::DataIn, hurry: false, arguments: String::new() };
    const OUT: Call = Call { function: Function::DataOut, hurry: false, arguments: String::new() };

    fn one() -> Token {
        Token::literal("1")
    }

    #[tokio::test]
    async fn the_same_call_joins_and_a_later_one_runs_anew() {
        let queues = Arc::new(TokenQueues::default());
        let (count, go) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let call = || {
            let (queues, count, go) = (Arc::clone(&queues), Arc::clone(&count), Arc::clone(&go));
            async move {
                let work = move |_| async move {
                    count.fetch_add(1, Ordering::SeqCst);
                    go.notified().await;
                    Ok(())
                };
                queues.run(&one(), IN, work).await
            }
        };
        let callers = [tokio::spawn(call()), tokio::spawn(call())];
        while queues.running(&one()).is_none() {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        go.notify_one();
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        assert_eq!((count.load(Ordering::SeqCst), queues.running(&one())), (1, None));
        go.notify_one();
        call().await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn work_goes_on_without_its_caller_and_another_function_waits_for_it() {
        let queues = Arc::new(TokenQueues::default());
        let (go, log) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
        let (first_go, first_log) = (Arc::clone(&go), Arc::clone(&log));
        let first = {
            let queues = Arc::clone(&queues);
            tokio::spawn(async move {
                let work = move |_| async move {
                    first_go.notified().await;
                    first_log.lock().unwrap().push("in");
                    Ok(())
                };
                queues.run(&one(), IN, work).await
            })
        };
        while queues.running(&one()).is_none() {
            tokio::task::yield_now().await;
        }
        first.abort();
        let second_log = Arc::clone(&log);
        let second = {
            let queues = Arc::clone(&queues);
            tokio::spawn(async move {
                let work = move |_| async move {
                    second_log.lock().unwrap().push("out");
                    Ok(())
                };
                queues.run(&one(), OUT, work).await
            })
        };
        tokio::task::yield_now().await;
        assert_eq!(queues.close().unwrap_err(), "1", "a service with work does not stop");
        go.notify_one();
        second.await.unwrap().unwrap();
        assert_eq!(*log.lock().unwrap(), ["in", "out"]);
        queues.close().unwrap();
        assert_eq!(queues.run(&one(), IN, |_| async { Ok(()) }).await.unwrap_err().code, ErrorCode::Stopping);
    }

    #[tokio::test]
    async fn cancel_reaches_the_work_and_waits_for_its_end() {
        let queues = Arc::new(TokenQueues::default());
        let running = {
            let queues = Arc::clone(&queues);
            let work = |mut cancelled: Cancelled| async move {
                let _ = cancelled.wait_for(|stop| *stop).await;
                Err(site(ErrorCode::Cancelled, "", ""))
            };
            tokio::spawn(async move { queues.run(&one(), IN, work).await })
        };
        while queues.running(&one()).is_none() {
            tokio::task::yield_now().await;
        }
        assert!(queues.cancel(&one(), Function::DataIn).await);
        assert_eq!(queues.running(&one()), None);
        assert_eq!(running.await.unwrap().unwrap_err().code, ErrorCode::Cancelled);
        assert!(!queues.cancel(&one(), Function::DataIn).await);
    }

    #[tokio::test]
    async fn a_panic_ends_its_call_alone() {
        let queues = Arc::new(TokenQueues::default());
        let error = queues.run(&one(), IN, |_| async { panic!("a bug") }).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::FunctionPanicked);
        queues.run(&one(), IN, |_| async { Ok(()) }).await.unwrap();
    }
}
