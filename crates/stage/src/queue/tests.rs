//! Items and units under many threads; run under random schedules, too ([`crate::schedules`]).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use model::FragmentIndex;

use super::super::sync::{explore, thread};
use super::*;

struct Here(Option<FragmentIndex>);

impl Host for Here {
    fn fragment(&self) -> Option<FragmentIndex> {
        self.0
    }
}

#[test]
fn every_item_and_every_unit_is_worked_on_once() {
    explore(|| {
        let queue = Arc::new(Queue::<usize, Here>::with_room_for(4));
        let units = Arc::new((0..20).map(|_| AtomicUsize::new(0)).collect::<Vec<_>>());
        let items = AtomicUsize::new(0);
        thread::scope(|scope| {
            for fragment in FragmentIndex::all(3) {
                let (queue, units, items) = (&queue, &units, &items);
                scope.spawn(move || {
                    let host = Arc::new(Here((fragment > FragmentIndex(0)).then_some(fragment)));
                    queue.work(&host, |item| {
                        let more = queue.take_more(|waiting| waiting.min(3), |item| !item.is_multiple_of(7));
                        items.fetch_add(item + more.iter().sum::<usize>(), Ordering::Relaxed);
                        if item == 7 {
                            let homes = (0..20).map(|unit| (unit > 10).then_some(FragmentIndex(unit % 3)));
                            let units = units.clone();
                            queue.share(homes, &host, move |unit, _| {
                                units[unit].fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    });
                });
            }
            let _close = CloseOnDrop(&*queue);
            (0..30).for_each(|item| queue.push(item));
        });
        assert!(queue.is_over());
        assert_eq!(items.into_inner(), 435);
        assert!(units.iter().all(|times| times.load(Ordering::Relaxed) == 1));
    });
}

#[test]
fn who_waits_until_the_queue_is_idle_finds_all_done_that_was_added_before() {
    explore(|| {
        let queue = Queue::<(), Here>::new();
        let done = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    queue.work(&Arc::new(Here(None)), |()| {
                        thread::yield_now();
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                });
            }
            for round in 1..=3 {
                (0..2).for_each(|_| queue.push(()));
                queue.wait_until_idle();
                assert_eq!(done.load(Ordering::Relaxed), 2 * round);
            }
            queue.close();
        });
    });
}

#[test]
fn who_shared_a_file_goes_on_when_the_last_helper_has_left_it() {
    explore(|| {
        let queue = Arc::new(Queue::<(), Here>::new());
        let at_work = Arc::new(AtomicUsize::new(0));
        queue.push(());
        queue.close();
        let work = || {
            let host = Arc::new(Here(None));
            queue.work(&host, |()| {
                let counted = at_work.clone();
                queue.share([None; 4].into_iter(), &host, move |_, _| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                    counted.fetch_sub(1, Ordering::Relaxed);
                });
                assert_eq!(at_work.load(Ordering::Relaxed), 0);
            });
        };
        thread::scope(|scope| {
            (0..3).for_each(|_| drop(scope.spawn(work)));
        });
    });
}

#[test]
fn an_idle_worker_helps_with_a_file_that_is_shared_after_the_queue_was_closed() {
    explore(|| {
        let queue = Arc::new(Queue::<(), Here>::new());
        let helped = Arc::new(AtomicBool::new(false));
        queue.push(());
        queue.close();
        let work = || {
            let host = Arc::new(Here(None));
            queue.work(&host, |()| {
                let (owner, seen) = (thread::current().id(), helped.clone());
                // The owner's unit ends only after somebody else took the other one.
                queue.share([None, None].into_iter(), &host, move |_, _| {
                    if thread::current().id() != owner {
                        seen.store(true, Ordering::Release);
                    }
                    while !seen.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                });
            });
        };
        thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
        });
        assert!(helped.load(Ordering::Acquire));
    });
}

#[test]
fn a_unit_goes_to_the_host_that_it_is_on_while_there_is_one() {
    explore(|| {
        let queue = Queue::<(), Here>::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = order.clone();
        let homes = [0, 0, 0, 1, 1].map(|home| Some(FragmentIndex(home)));
        queue.share(homes.into_iter(), &Arc::new(Here(Some(FragmentIndex(1)))), move |unit, _| {
            seen.lock().unwrap().push(unit)
        });
        assert_eq!(*order.lock().unwrap(), [3, 4, 0, 1, 2]);
    });
}
