//! Which hosts a buffer is to be over, and where they reach each other.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use model::{NodeName, hostlist};
use wire::control::AllocatedHost;

use crate::arguments::With;
use crate::env;
use crate::failure::Failure;
use crate::seen::own_node;

/// The hosts of an allocation.
#[derive(Debug)]
pub struct Hosts {
    /// All of them.
    pub names: Vec<NodeName>,
}

impl Hosts {
    /// Those of the allocation of Slurm that we run in; `None`: nobody asks for it.
    ///
    /// # Errors
    /// There is no allocation, or this host is none of it.
    pub fn of(arguments: &With) -> Result<Option<Hosts>, Failure> {
        if !arguments.on_allocation {
            return Ok(None);
        }
        refuse_options(arguments)?;
        let names = named(&env::allocation().ok_or_else(no_allocation)?)?;
        let own = own_node();
        if names.iter().all(|name| name.as_str() != own) {
            let among: Vec<&str> = names.iter().map(NodeName::as_str).collect();
            return Err(Failure::usage(
                format!(
                    "this host, {own}, is not one of {}, on which the buffer is to be mounted",
                    among.join(" ")
                ),
                "call the command in a batch script, or on the first of them",
            ));
        }
        Ok(Some(Hosts { names }))
    }

    /// Each with the address at which the others reach it.
    ///
    /// # Errors
    /// One has none.
    pub fn addressed(&self) -> Result<Vec<AllocatedHost>, Failure> {
        let found: Vec<IpAddr> = self.names.iter().map(address).collect::<Result<_, _>>()?;
        let distant = found.iter().find(|address| !address.is_loopback()).copied();
        let host = |(name, address): (&NodeName, IpAddr)| {
            // Many hosts have their own name for themselves alone.
            let seen = distant.filter(|_| address.is_loopback()).and_then(seen_from);
            AllocatedHost { name: name.clone(), address: seen.unwrap_or(address) }
        };
        Ok(self.names.iter().zip(found).map(host).collect())
    }
}

/// Options that mean nothing for such a buffer.
fn refuse_options(arguments: &With) -> Result<(), Failure> {
    let refused = |option: &str, why: &str| {
        Err(Failure::usage(format!("{option} is not for --on-allocation: {why}"), "leave it out"))
    };
    match (arguments.job.keep, arguments.job.volume) {
        (true, _) => {
            refused("--keep", "the buffer ends with the command, and with it what --out did not copy")
        }
        (_, Some(_)) => refused("--volume", "each host keeps its part in a folder"),
        (false, None) => Ok(()),
    }
}

fn no_allocation() -> Failure {
    if let Some((_, token)) = env::own_job() {
        return Failure::usage(
            format!("this command runs in the job of session {token}, which has a buffer"),
            "use that one, which $DW_JOB_STRIPED names, or call the command outside of it",
        );
    }
    Failure::usage(
        "there is no allocation here: SLURM_JOB_ID and SLURM_JOB_NODELIST are not set by Slurm",
        "call the command inside `salloc` or `sbatch`",
    )
}

fn named(list: &str) -> Result<Vec<NodeName>, Failure> {
    hostlist::names(list).map_err(|error| {
        Failure::usage(format!("SLURM_JOB_NODELIST: {error}"), "call the command inside `salloc` or `sbatch`")
    })
}

fn address(name: &NodeName) -> Result<IpAddr, Failure> {
    let failed = |why: String| {
        Failure::unavailable(
            format!("look up host {name}: {why}"),
            "give it a name that this host can look up",
        )
    };
    let mut found = (name.as_str(), 0).to_socket_addrs().map_err(|error| failed(error.to_string()))?;
    found.next().map(|found| found.ip()).ok_or_else(|| failed("it has no address".into()))
}

/// This host's own address towards another.
fn seen_from(other: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if other.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // No packet is sent: the kernel only chooses the way.
    socket.connect((other, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
