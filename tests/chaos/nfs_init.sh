#!/bin/bash
# The first process of the User Mode Linux that nfs_machine.py starts: an NFS server, then nfs.py.
# The files of the machine are there to read; everything that is written is in memory.
export PATH=$tools/bin:$tools/sbin:$tools/usr/sbin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
export LD_LIBRARY_PATH=$tools/lib/x86_64-linux-gnu:$tools/usr/lib/x86_64-linux-gnu
mount -t proc proc /proc; mount -t sysfs sys /sys
for folder in /tmp /run /mnt /var/lib; do mount -t tmpfs memory $folder; done
for module in nfs nfsv4 nfsd veth; do (exec -a modprobe kmod -d "$tools" $module); done
mkdir -p /var/lib/nfs/{v4recovery,sm,rpc_pipefs} /mnt/export; touch /var/lib/nfs/{etab,rmtab,xtab}
ip link set lo up
mount -t tmpfs memory /mnt/export
mount -t nfsd nfsd /proc/fs/nfsd
echo 10 > /proc/fs/nfsd/nfsv4leasetime; echo 10 > /proc/fs/nfsd/nfsv4gracetime
exportfs -i -o rw,no_root_squash,insecure,fsid=0,no_subtree_check,sync '*:/mnt/export'
rpc.nfsd -N 3 -V 4.2 8; rpc.mountd -N 3 2> /dev/null
here=$(dirname "$0")
cd "$here/.." && PYTHONPATH=$here/../../src $python -m chaos.nfs --kills "$kills" --seed "$seed" --pauses "$pauses" --mount "$options"
echo "exit code $?"
echo o > /proc/sysrq-trigger; sleep 5
