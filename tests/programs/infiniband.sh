# SPDX-License-Identifier: GPL-2.0
# Programs that ask for InfiniBand, which the devices are shown as from here on. Sourced by inside, after its machines and links,
# with A, on_both and over_the_device.

export KIWARP_SHOW=roce

# --- UCX: by workers' addresses, with queue pairs connected by number ---

has_transport() { # NAME DEVICE
	limited ucx_info -d | grep -A 1 "Transport: $1\$" | grep "Device: $2:1\$"
}
for name in rc_verbs ud_verbs; do t ucx_has_$name has_transport $name kiw0; done

# It starts MPI, which takes seconds, unless its input is a terminal.
cat >/tmp/ucx_alone <<'SCRIPT'
#!/bin/sh
exec ucx_perftest "$@" </dev/ptmx
SCRIPT
chmod 755 /tmp/ucx_alone
# In one process each: a line has a name and options.
cat >/tmp/sizes <<'SIZES'
8 -s 8 -n 1000 -w 10
4000 -s 4000 -n 200 -w 10
65536 -s 65536 -n 50 -w 2
4194304 -s 4194304 -n 5 -w 1
SIZES
# ucx NAME TRANSPORT[,TRANSPORT] OPTION...: both sides of ucx_perftest
ucx() {
	PORT=13337 pair "ucx_$1" env UCX_TLS="$2" /tmp/ucx_alone "${@:3}" -- env UCX_TLS="$2" /tmp/ucx_alone "${@:3}" "$A"
}
for name in tag_lat tag_bw tag_sync_lat stream_lat stream_bw ucp_am_lat ucp_am_bw; do
	ucx rc_$name rc_v,self -t $name -b /tmp/sizes
done
for name in ucp_put_lat ucp_put_bw ucp_get; do
	ucx rc_$name rc_v,self -t $name -b /tmp/sizes
	UCX_ZCOPY_THRESH=8k ucx rc_${name}_zcopy rc_v,self -t $name -b /tmp/sizes
done
UCX_RNDV_THRESH=8k ucx rc_tag_bw_rendezvous rc_v,self -t tag_bw -b /tmp/sizes
for name in ucp_add ucp_fadd ucp_swap ucp_cswap; do ucx rc_$name rc_v,self -t $name -s 8 -n 200 -w 10; done
for name in tag_lat tag_bw ucp_am_bw ucp_get; do ucx ud_$name ud_v,self -t $name -b /tmp/sizes; done
# Whichever it chooses
ucx all_tag_bw all -t tag_bw -b /tmp/sizes

# uct NAME TRANSPORT OPTION...: the layer below, which is what the transports are
uct() {
	PORT=13337 pair "ucx_uct_$1" /tmp/ucx_alone -x "$2" -d kiw1:1 "${@:3}" -- /tmp/ucx_alone -x "$2" -d kiw0:1 "${@:3}" "$A"
}
for name in am_lat put_lat fadd cswap; do uct rc_$name rc_verbs -t $name -s 8 -n 200 -w 10; done
for name in am_bw put_bw get; do
	uct rc_${name}_bcopy rc_verbs -t $name -D bcopy -s 8000 -n 200 -w 10
done
for name in put_bw get; do uct rc_${name}_zcopy rc_verbs -t $name -D zcopy -s 4194304 -n 5 -w 1; done
uct ud_am_lat ud_verbs -t am_lat -s 8 -n 200 -w 10
uct ud_am_bw_bcopy ud_verbs -t am_bw -D bcopy -s 900 -n 200 -w 10

# --- Open MPI by UCX, and by libfabric's datagrams ---

# These are bursts of 39 MB, compared. Open MPI's pml takes devices of some makers alone, unless told otherwise.
ucx_mpi() { # TRANSPORTS
	over_the_device 39000000 on_both -x KIWARP_SHOW -x UCX_TLS="$1" --mca pml ucx \
		--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any mpi_exchange
}
t openmpi_ucx_rc ucx_mpi rc_v,self
# libfabric's rxd takes a second for 1 MB, also over UDP sockets (udp;ofi_rxd).
t openmpi_ofi_rxd over_the_device 2400000 on_both -x KIWARP_SHOW --mca pml cm --mca mtl ofi \
	--mca mtl_ofi_provider_include 'verbs;ofi_rxd' mpi_exchange 1500000

# --- libfabric ---

ping() { # NAME OPTION...
	PORT=47592 pair "fi_pingpong_$1" fi_pingpong -c -I 10 "${@:2}" -- fi_pingpong -c -I 10 "${@:2}" "$A"
}
ping roce_msg -p verbs -e msg
ping roce_rxm -p 'verbs;ofi_rxm' -e rdm
ping dgram -p verbs -e dgram
ping rxd -p 'verbs;ofi_rxd' -e rdm

# --- networks that lose packets; a peer, and a link, that goes ---

loses() { # PERCENT: both directions
	tc qdisc replace dev eth0 root netem loss "$1"% && ip netns exec second tc qdisc replace dev eth0 root netem loss "$1"%
}
t loss loses 1
ucx lossy_rc_tag_lat rc_v,self -t tag_lat -b /tmp/sizes
ucx lossy_ud_tag_lat ud_v,self -t tag_lat -s 8 -n 500 -w 10
t openmpi_ucx_lossy ucx_mpi rc_v,self
ping lossy_rxd -p 'verbs;ofi_rxd' -e rdm
t no_loss loses 0

# both sides of a transfer without an end, and COMMAND: the client has to end, with an error
left_alone() { # TRANSPORT COMMAND...
	local server client status=0 before
	before=$(<$counters/sent_bytes)
	in_host second
	env UCX_TLS="$1" "${IN[@]}" /tmp/ucx_alone -e -t tag_lat -s 8 -n 1000000000 >"$WORK/server" 2>&1 &
	server=$!
	PORT=13337 until_true listens
	UCX_TLS=$1 timeout -k 5 60 /tmp/ucx_alone -e -t tag_lat -s 8 -n 1000000000 "$A" >"$WORK/client" 2>&1 &
	client=$!
	until_true sent_more_than $((before + 20000)) || { cat "$WORK/client"; status=1; }
	"${@:2}"
	wait $client
	case $? in
	0 | 124 | 137) echo "the client noticed nothing"; status=1 ;;
	esac
	kill -KILL $server 2>/dev/null
	wait $server 2>/dev/null
	tail -n 5 "$WORK/client"
	return $status
}
# sent_more_than BYTES: by kiw0
sent_more_than() { [ "$(<$counters/sent_bytes)" -gt "$1" ]; }
kill_server() { kill -KILL $server; }
delete_link() { rdma link delete kiw0; }
for name in rc_v ud_v; do t ucx_${name}_peer_is_killed left_alone $name,self kill_server; done
for name in rc_v ud_v; do
	t ucx_${name}_link_goes left_alone $name,self delete_link
	t ucx_${name}_link_comes_again rdma link add kiw0 type kiwarp netdev eth0
	ucx after_link_${name} $name,self -t tag_lat -s 8 -n 200
done
