# SPDX-License-Identifier: GPL-2.0
# NVMe and NFS over RDMA and TCP, by the recipes of tests/ulp, in the guest that has them. Sourced by measure.sh. Both ends are in
# one kernel, outside of network namespaces, since siw cannot cross them. kiwarp and TCP share a wire, siw has another one; all
# of them use the same ram disk and the same share.
. /src/tests/ulp/common.sh
. /src/tests/ulp/nvme.sh
. /src/tests/ulp/nfs.sh

declare -A SERVER_ADDRESS=([ours]=10.81.0.2 [tcp]=10.81.0.2 [siw]=10.82.0.2)
declare -A CLIENT_ADDRESS=([ours]=10.81.0.1 [tcp]=10.81.0.1 [siw]=10.82.0.1)
declare -A NVME_PORT=([ours]=1 [siw]=2 [tcp]=3)
STORAGE=(ours siw tcp)

nvme_name() { echo "nqn.2026-11.org.example:$1"; }
transport_of() { if [ "$1" = tcp ]; then echo tcp; else echo rdma; fi; }
service_of() { if [ "$1" = tcp ]; then echo 4421; else echo 4420; fi; }

# storage_up: everything that a turn needs, the mounts of NFS excepted. A disk of NVMe for each contender, as the initiator would
# take several ways to one as one.
storage_up() {
	local contender
	modprobe -a nvmet-rdma nvmet-tcp nvme-rdma nvme-tcp nfsd rpcrdma nfs && ram_disks || return
	wire kiwarp kiwarp && wire siw siw 2 && serve && head -c 256M /dev/zero >$EXPORT/file || return
	for contender in "${STORAGE[@]}"; do
		[ -z "${absent[$contender]:-}" ] || continue
		storage_disk "$contender" || return
	done
}
storage_disk() {
	local name
	name=$(nvme_name "$1")
	nvme_disks "$name" /dev/ram0 &&
		nvme_offer "${NVME_PORT[$1]}" "$(transport_of "$1")" "${SERVER_ADDRESS[$1]}" "$(service_of "$1")" "$name" &&
		nvme_connect "$(transport_of "$1")" "${SERVER_ADDRESS[$1]}" "$(service_of "$1")" "$name" -w "${CLIENT_ADDRESS[$1]}" -i 2 &&
		LIMIT=20 soon storage_disk_there "$name"
}
storage_disk_there() { [ -b "$(nvme_disk "$1" 1)" ]; }
storage_down() {
	local contender
	for contender in "${STORAGE[@]}"; do
		[ -z "${absent[$contender]:-}" ] || continue
		nvme disconnect -n "$(nvme_name "$contender")" && no_nvme_offer "${NVME_PORT[$contender]}" &&
			no_nvme_disks "$(nvme_name "$contender")"
	done
	no_service
	no_interfaces
}
storage_mtu() {
	local number
	mtu=$1
	for number in 0 1 2 3; do ip link set wire$number mtu "$mtu"; done
}

# measure_storage CONTENDER MILLISECONDS: megabytes per second. The kind says what is done: PROTOCOL_OPERATION_DEPTH.
measure_storage() {
	local protocol operation depth target status=0
	IFS=_ read -r protocol operation depth <<<"$kind"
	if [ "$protocol" = nvme ]; then
		target=$(nvme_disk "$(nvme_name "$1")" 1)
	else
		mounted 4.2 "${SERVER_ADDRESS[$1]}" "$(transport_of "$1")" >"$WORK/client" 2>&1 || { reason="it was not mounted"; return 1; }
		target=$MOUNT/file
	fi
	LIMIT=$((20 + $2 / 1000)) limited fio --name=bench --filename="$target" --rw="$operation" --bs="$octets" --iodepth="$depth" \
		--ioengine=libaio --direct=1 --size=128M --time_based --runtime="$2ms" --allow_file_create=0 --output-format=json \
		--output="$WORK/fio" >"$WORK/client" 2>&1 || status=$?
	[ "$protocol" = nvme ] || unmounted >>"$WORK/client" 2>&1 || { reason="it was not unmounted"; return 1; }
	[ $status = 0 ] || { reason="fio: $(why $status)"; return 1; }
	fio_figure "$WORK/fio"
}

# measure_storage_cpu CONTENDER MILLISECONDS: seconds of processor time for 10^9 bytes, as measure_cpu
measure_storage_cpu() {
	local used start first moved before
	processor_time && start=$used
	measure_storage "$1" $(($2 / 6)) || return
	processor_time && first=$((used - start)) start=$used before=$moved
	measure_storage "$1" $(($2 + $2 / 6)) || return
	processor_time
	per_gigabyte $((used - start - first)) $((moved - before))
}
