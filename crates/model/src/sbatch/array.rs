//! The tasks of a job array: `sbatch --array`.

/// The largest number of a task; Slurm's own bound (`MaxArraySize`) is never above.
const LARGEST: u32 = 4_000_000;

/// The tasks of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// As written.
    text: String,
    /// Their numbers, from the smallest up; at least one.
    tasks: Vec<u32>,
    /// `:N` of the first range that has one, else 1: `SLURM_ARRAY_TASK_STEP`.
    step: u32,
}

impl Array {
    /// Reads `0-15`, `1,3,5-7`, `0-15:4` and, as a bound on how many run at once, a last `%N`. `None` where `sbatch`
    /// refuses it.
    pub fn parse(text: &str) -> Option<Array> {
        let list = match text.split_once('%') {
            Some((list, bound)) => bound.parse::<u32>().ok().map(|_| list)?,
            None => text,
        };
        let (mut tasks, mut step) = (Vec::new(), None);
        for range in list.split(',') {
            let (range, own_step) = match range.split_once(':') {
                Some((range, own_step)) => (range, Some(number(own_step).filter(|step| *step > 0)?)),
                None => (range, None),
            };
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(range)?, number(range)?),
            };
            if first > last {
                return None;
            }
            tasks.extend((first..=last).step_by(own_step.unwrap_or(1) as usize));
            step = step.or(own_step);
        }
        tasks.sort_unstable();
        tasks.dedup();
        Some(Array { text: text.to_owned(), tasks, step: step.unwrap_or(1) })
    }

    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Their numbers, from the smallest up.
    pub fn tasks(&self) -> &[u32] {
        &self.tasks
    }

    /// What every task finds in its environment of the array as a whole, by Slurm's names.
    pub fn variables(&self) -> [(&'static str, String); 4] {
        let number = |task: Option<&u32>| task.copied().unwrap_or_default().to_string();
        [
            ("SLURM_ARRAY_TASK_COUNT", self.tasks.len().to_string()),
            ("SLURM_ARRAY_TASK_MIN", number(self.tasks.first())),
            ("SLURM_ARRAY_TASK_MAX", number(self.tasks.last())),
            ("SLURM_ARRAY_TASK_STEP", self.step.to_string()),
        ]
    }

    /// The tasks above `task`, as `--array` takes them; `None` where that was the last.
    pub fn after(&self, task: u32) -> Option<String> {
        let rest: Vec<u32> = self.tasks.iter().copied().filter(|other| *other > task).collect();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for task in rest {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == task => *last = task,
                _ => ranges.push((task, task)),
            }
        }
        let shown = ranges.iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        Some(shown.collect::<Vec<_>>().join(",")).filter(|text| !text.is_empty())
    }
}

/// Digits alone: `parse` takes a sign as well.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number <= LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_list_of_tasks_is_read() {
        let tasks = |text: &str| Array::parse(text).map(|array| array.tasks);
        assert_eq!(tasks("7"), Some(vec![7]));
        assert_eq!(tasks("0-3%2"), Some(vec![0, 1, 2, 3]));
        assert_eq!(tasks("5,1,1-2"), Some(vec![1, 2, 5]));
        assert_eq!(tasks("0-10:5,20"), Some(vec![0, 5, 10, 20]));
        for text in ["", "a", "3-1", "1-", "-1", "+1", "1-3:0", "1%", "1,,2", "4000001"] {
            assert_eq!(tasks(text), None, "{text}");
        }
    }

    /// As Slurm 22.05 sets them.
    #[test]
    fn a_task_learns_of_the_others() {
        let values = |text: &str| Array::parse(text).expect("a list").variables().map(|(_, value)| value);
        assert_eq!(values("0-10:5,20"), ["4", "0", "20", "5"]);
        assert_eq!(values("5,1"), ["2", "1", "5", "1"]);
    }

    #[test]
    fn what_is_left_of_an_array_is_a_list_again() {
        let array = Array::parse("0-3,7,9-10").expect("a list");
        assert_eq!(array.after(1).as_deref(), Some("2-3,7,9-10"));
        assert_eq!(array.after(10), None);
    }
}
