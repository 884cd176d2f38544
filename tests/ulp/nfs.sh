# SPDX-License-Identifier: GPL-2.0
# The recipe for NFS over RDMA, by the kernel's own server (nfsd) and client. Sourced after common.sh.
#
#   serve                     what a distribution's services do; the share is a tmpfs
#   nfs_start   nfs_stop      the server's threads alone
#   no_service                takes all of it away
#   mounted VERSION ADDRESS [tcp]
#                             at $MOUNT; by RDMA unless it says tcp
#   unmounted
EXPORT=/srv/nfs
MOUNT=/mnt/nfs
# Seconds in which clients claim their files again when a server has started: the least that it accepts
GRACE=10
# The words that put a command into the network of the server, and of the client; mounts are the same everywhere.
SERVER=() CLIENT=()

serve() {
	mount -t tmpfs -o mode=755 tmpfs /var/lib/nfs && mkdir -p /var/lib/nfs/{sm,sm.bak,v4recovery,rpc_pipefs,nfsdcld} /run/rpcbind &&
		touch /var/lib/nfs/{etab,rmtab} && mount -t rpc_pipefs pipefs /var/lib/nfs/rpc_pipefs || return
	mkdir -p $EXPORT $MOUNT && mount -t tmpfs -o size=400M,mode=777 tmpfs $EXPORT || return
	limited "${SERVER[@]}" mount -t nfsd nfsd /proc/fs/nfsd && limited "${SERVER[@]}" rpcbind -w &&
		limited "${SERVER[@]}" nfsdcld && limited "${SERVER[@]}" rpc.mountd -p 20048 || return
	limited "${SERVER[@]}" exportfs -i -o rw,no_root_squash,insecure,fsid=0,no_subtree_check "*:$EXPORT" && nfs_start
}
nfs_start() { limited "${SERVER[@]}" rpc.nfsd --rdma=20049 -L $GRACE -G $GRACE 4 && cat /proc/fs/nfsd/portlist && listens_for_rdma; }
nfs_stop() { limited "${SERVER[@]}" rpc.nfsd 0; }
listens_for_rdma() { grep -q '^rdma 20049' /proc/fs/nfsd/portlist; }
no_service() {
	nfs_stop
	"${SERVER[@]}" exportfs -au
	pidof rpc.mountd nfsdcld rpcbind | xargs -r kill
	LIMIT=20 soon sh -c '! pidof rpc.mountd nfsdcld rpcbind'
	umount /proc/fs/nfsd /var/lib/nfs/rpc_pipefs /var/lib/nfs $EXPORT
}

mounted() {
	local options=vers=$1,proto=rdma,port=20049 type=nfs4 share=/
	[ "${3:-rdma}" = rdma ] || options=vers=$1,proto=$3
	# Its older protocols stay with TCP.
	[ "$1" != 3 ] || options+=,nolock,mountproto=tcp,mountport=20048 type=nfs share=$EXPORT
	limited "${CLIENT[@]}" mount -t $type -o "$options" "$2:$share" $MOUNT && grep -q " $MOUNT .*proto=${3:-rdma}" /proc/mounts
}
unmounted() { limited umount $MOUNT; }
