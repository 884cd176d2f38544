# SPDX-License-Identifier: GPL-2.0
# Boots a guest of either kind, or two joined by wires. Sourced after build.sh. The caller has set TREE, KERNEL (or empty: the
# tree's own), IMAGE, KVER, MEMORY, DEST, SIW (or empty), bench (1 or empty) and RUN, the folder of this run: out/ and ctl/ are
# shared with the guest; release, the name of TREE; ROOT, what a guest in QEMU has for its root; for run_guest also kind, guest,
# gcov, bare, peers, params, allowed, boot, two (1 or empty), wire and join.

# nth_cpu N: that one, from 0 on, of the CPUs that this process may use; nothing where there are fewer
nth_cpu() {
	sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr , '\n' |
		awk -F - -v n="$1" '{ for (i = $1; i <= $NF; i++) if (n-- == 0) print i }'
}

# boot_uml [left|right]: becomes the guest, or one of two, which has one CPU and an end of each wire
boot_uml() {
	local host=${1:-} binds=("$KERNEL:/kernel:ro" "$DEST:/dest:ro" "$TOP:/src:ro") cpus=2 wires=() devices=() number=1 end=listen i cpu
	[ -z "$SIW" ] || binds+=("$SIW:/siw:ro")
	if [ "$host" = right ]; then
		binds+=("$RUN/out/right:/out" "$RUN/right:/ctl") number=2 end=connect
	else
		binds+=("$RUN/out:/out" "$RUN/ctl:/ctl")
	fi
	if [ -n "$host" ]; then
		cpus=1
		binds+=("$RUN/wires:/build")
		for ((i = 0; i < 2 + (2 + ${#bench}) * ${#peers}; i++)); do
			wires+=(/dest/usr/lib/kiwarp/guest/wire $end wire$i $((20 + i)))
			devices+=("vec$i:transport=fd,fd=$((20 + i)),mac=02:00:00:00:0$i:0$number")
		done
		cpu=$(nth_cpu $((number - 1)))
		[ -z "$cpu" ] || taskset -p -c "$cpu" $BASHPID >/dev/null
	fi
	enter_tree "$TREE" "${binds[@]}" -- "${wires[@]}" /kernel/linux "mem=$MEMORY" ncpus=$cpus seccomp=on uml_dir=/tmp/ ${bench:+pin} \
		"${devices[@]}" root=/dev/root rootfstype=hostfs rootflags=/ ro init=/src/scripts/guest-init/uml \
		noreboot con=null con0=null,fd:1 ssl=null ssl0=null,fd:3 ssl1=null,fd:4 loglevel=5 panic=-1 \
		</dev/null 3>"$RUN/stdout" 4>"$RUN/stderr" >"$(console "$host")" 2>&1
}
# console [HOST]: the file with that guest's console
console() { if [ "${1:-}" = right ]; then echo "$RUN/out/right/console.txt"; else echo "$RUN/console.txt"; fi; }

initrd_file() {
	echo "$CACHE/initrd/$KVER-$(hash_of "$TOP/scripts/guest-init/initrd" "$TOP/scripts/lib/boot.sh" -- "${TREE##*/}")"
}

initrd_make() {
	local file=$1 work module name
	work=$(mktemp -d)
	mkdir -p "$work"/{bin,dev,proc,sys,modules} "${file%/*}"
	cp "$TREE/bin/busybox" "$work/bin/"
	cp "$TOP/scripts/guest-init/initrd" "$work/init"
	: >"$work/modules/list"
	for module in virtio_pci virtio_console 9pnet_virtio 9p virtiofs overlay virtio_rng; do
		modprobe -d "$TREE" -S "$KVER" --show-depends "$module" 2>/dev/null || :
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r module; do
		name=${module##*/} name=${name%%.ko*}.ko
		case $module in
		*.xz) xz -dc "$module" ;;
		*.zst) zstd -qdc "$module" ;;
		*) cat "$module" ;;
		esac >"$work/modules/$name"
		echo "$name" >>"$work/modules/list"
	done
	(cd "$work" && find . | cpio -o -H newc) >"$file.new" 2>/dev/null
	rm -rf "$work"
	mv "$file.new" "$file"
}

# machine_of ARCHITECTURE: sets how QEMU emulates it: the program's name, its package, and options; and the system's console
machine_of() {
	case ${1:-amd64} in
	amd64)
		EMULATOR=x86_64 EMULATOR_PACKAGE=qemu-system-x86 CONSOLE=ttyS0
		# TCG emulates the crc32 instruction slowly; a CPU without it makes kernel and programs use their tables.
		MACHINE=(-M q35 -cpu "${EMULATED_CPU:-qemu64}")
		;;
	# A CPU that has pages of 4, 16 and 64 KB
	arm64) EMULATOR=aarch64 EMULATOR_PACKAGE=qemu-system-arm CONSOLE=ttyAMA0 MACHINE=(-M virt -cpu neoverse-n1) ;;
	ppc64el) EMULATOR=ppc64 EMULATOR_PACKAGE=qemu-system-ppc CONSOLE=hvc0 MACHINE=(-M pseries -cpu POWER9) ;;
	s390x) EMULATOR=s390x EMULATOR_PACKAGE=qemu-system-misc CONSOLE=ttysclp0 MACHINE=(-M s390-ccw-virtio -cpu qemu) ;;
	esac
	MACHINE=(-accel tcg,thread=multi "${MACHINE[@]}")
}

# kvm_works: whether this kernel boots under KVM here. Some machines have a /dev/kvm that can't; asked once.
kvm_works() {
	local known
	[ -w /dev/kvm ] || return 1
	known=$CACHE/kvm/$(hash_of -- "$(uname -rv)" "$KVER" "$(cat /proc/sys/kernel/random/boot_id)")
	if [ ! -e "$known" ]; then
		say "seeing whether KVM works here"
		mkdir -p "${known%/*}"
		# In a subshell, so that its message about an aborted qemu isn't shown
		(timeout -s KILL 30 qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot -M q35,accel=kvm \
			-cpu host -smp 2 -m 512M -kernel "$IMAGE" -initrd "$INITRD" \
			-append 'console=ttyS0 panic=-1 kiwarp.probe' -serial "file:$known.$$" </dev/null || :) >/dev/null 2>&1
		if grep -qs 'kiwarp-probe: up' "$known.$$"; then echo yes; else echo no; fi >"$known.new.$$"
		rm -f "$known.$$"
		mv "$known.new.$$" "$known"
	fi
	grep -q yes "$known"
}

qemu_prepare() {
	local foreign
	foreign=$(tree_foreign "$release")
	machine_of "$foreign"
	host_packages "$EMULATOR_PACKAGE" cpio kmod xz-utils zstd
	INITRD=$(initrd_file)
	once "$CACHE/locks/initrd-$KVER" test -e "$INITRD" -- initrd_make "$INITRD"
	[ -n "$foreign" ] || ! kvm_works || MACHINE=(-M q35 -accel kvm -cpu host)
}

share() { SHARES+=(-virtfs "local,path=$2,mount_tag=$1,security_model=none,multidevs=remap${3:+,readonly=on}"); }

# boot_qemu: becomes the guest. The root comes by virtiofs where the machine has its daemon, else by 9p.
boot_qemu() {
	local number=1 daemon='' socket memory=(-m "$MEMORY") transport=9p
	SHARES=()
	# Its device is one of PCI, which not every machine has.
	[ "$EMULATOR" != x86_64 ] || daemon=$(ls /usr/libexec/virtiofsd /usr/lib/qemu/virtiofsd 2>/dev/null | head -n 1 || :)
	if [ -n "$daemon" ]; then
		socket=$RUN/fs
		case $daemon in
		*/qemu/*) set -- -o source="$ROOT" -o sandbox=chroot -o cache=always -o no_posix_lock ;;
		*) set -- --shared-dir "$ROOT" --sandbox=chroot --cache=always ;;
		esac
		setpriv --pdeathsig KILL "$daemon" --socket-path="$socket" --thread-pool-size=2 "$@" </dev/null >"$RUN/virtiofsd.log" 2>&1 &
		for _ in {1..100}; do [ -S "$socket" ] && break; sleep 0.05; done
		if [ -S "$socket" ]; then
			transport=virtiofs
			memory+=(-object "memory-backend-memfd,id=mem,size=$MEMORY,share=on" -numa node,memdev=mem)
			SHARES+=(-chardev "socket,id=fs,path=$socket" -device vhost-user-fs-pci,queue-size=1024,chardev=fs,tag=tree)
		fi
	fi
	[ $transport = virtiofs ] || share tree "$ROOT" ro
	share dest "$DEST" ro
	share src "$TOP" ro
	share out "$RUN/out"
	share ctl "$RUN/ctl"
	[ -z "$KERNEL" ] || share mods "$KERNEL/mods" ro
	[ -z "$SIW" ] || share siw "$SIW" ro
	# A frame that comes before the other guest is there is lost.
	[[ ${join%:*} < ${join#*:} ]] || number=2
	[ -z "$join" ] || SHARES+=(-netdev "dgram,id=join,local.type=unix,local.path=${join%:*},remote.type=unix,remote.path=${join#*:}"
		-device "virtio-net,netdev=join,mac=02:00:00:00:01:0$number")
	# The console log needs a descriptor of its own: standard output and error belong to the command.
	exec setpriv --pdeathsig KILL "qemu-system-$EMULATOR" -nodefaults -no-user-config -display none -no-reboot \
		"${MACHINE[@]}" -smp 2 "${memory[@]}" -kernel "$IMAGE" -initrd "$INITRD" \
		-append "console=$CONSOLE loglevel=5 log_buf_len=4M panic=-1 oops=panic mitigations=off nopti tsc=reliable no_timer_check random.trust_cpu=on kiwarp.transport=$transport${KERNEL:+ kiwarp.mods}${SIW:+ kiwarp.siw}" \
		"${SHARES[@]}" -serial "file:$RUN/console.txt" -device virtio-rng -device virtio-serial \
		-chardev "file,id=out,path=$RUN/stdout" -device virtserialport,chardev=out,name=stdout \
		-chardev "file,id=err,path=$RUN/stderr" -device virtserialport,chardev=err,name=stderr \
		</dev/null >"$RUN/qemu.txt" 2>&1
}

# panicked: a guest has died
panicked() { grep -aqs 'Kernel panic' "$RUN/console.txt" "$RUN/out/right/console.txt"; }

# booted: all guests have
booted() { [ -e "$RUN/ctl/booted" ] && { [ -z "$two" ] || [ -e "$RUN/right/booted" ]; }; }

# watch SECONDS PROCESS...: ends the guests when the time is up, or that for the boot, which makes the file "late", or when one has died
# of a panic, which not every kernel survives to the power-off
watch() {
	local begin=$SECONDS limit=$1
	shift
	until panicked; do
		booted && [ $((SECONDS - begin)) -lt "$limit" ] || [ $((SECONDS - begin)) -lt "$boot" ] || { : >"$RUN/late"; break; }
		sleep 0.5
	done
	[ -e "$RUN/late" ] || sleep 1
	kill -KILL "$@" || :
} >/dev/null 2>&1

# prefer PROCESS CONTROL: the kernel of that guest, once it has booted, comes before the guest's own processes on the host's CPU. Else a
# process that polls would go on for some milliseconds when an interrupt arrives.
prefer() {
	local control=$2 kernel
	until [ -e "$control/booted" ]; do
		kill -0 "$1" 2>/dev/null || return 0
		sleep 0.05
	done
	kernel=$(<"/proc/$1/task/$1/children") && chrt -a -R -f -p 1 "${kernel% }" || say "a guest's kernel got no priority"
}

# run_guest COMMAND...: boots and waits; sets "late" when the guest had to be ended
run_guest() {
	local machines watcher limit=$((allowed + boot)) readers
	rm -rf "${RUN:?}"/*
	mkdir "$RUN/out" "$RUN/ctl"
	mkfifo "$RUN/stdout" "$RUN/stderr"
	printf '%s\0' "$@" >"$RUN/ctl/command"
	printf '%s=%q\n' GUEST "$guest" GCOV "$gcov" BARE "$bare" PEERS "$peers" SIW_PARAMS "$params" SECONDS_ALLOWED "$allowed" \
		HOST "${two:+left}" WIRE "$wire" BENCH "$bench" >"$RUN/ctl/options"
	: >"$RUN/console.txt"
	cat "$RUN/stdout" 6>&- 7>&- &
	readers=($!)
	cat "$RUN/stderr" >&2 6>&- 7>&- &
	readers+=($!)
	if [ -n "$two" ]; then
		mkdir "$RUN/out/right" "$RUN/right" "$RUN/wires"
		sed 's/^HOST=.*/HOST=right/' "$RUN/ctl/options" >"$RUN/right/options"
		boot_uml left &
		machines=($!)
		boot_uml right &
		machines+=($!)
	else
		("boot_$kind") &
		machines=($!)
	fi
	watch "$limit" "${machines[@]}" 6>&- 7>&- &
	watcher=$!
	if [ -n "$two" ] && [ -n "$bench" ]; then
		prefer "${machines[0]}" "$RUN/ctl"
		prefer "${machines[1]}" "$RUN/right"
	fi
	# Not "wait -n" for all: where one has been killed already, bash doesn't know it any more, and waits for the other.
	wait "${machines[0]}" 2>/dev/null || :
	[ -z "$two" ] || end_right "${machines[1]}"
	kill -KILL "$watcher" 2>/dev/null || :
	late=''
	[ ! -e "$RUN/late" ] || late=1
	# Readers of a pipe that was never opened for writing would wait for ever.
	: <>"$RUN/stdout" <>"$RUN/stderr"
	wait "${readers[@]}" "$watcher" 2>/dev/null || :
}

# end_right PROCESS: left has told it to end, and is no more
end_right() {
	local end=$((SECONDS + boot))
	while kill -0 "$1" 2>/dev/null && [ $SECONDS -lt $end ]; do sleep 0.05; done
	kill -KILL "$1" 2>/dev/null || :
	wait "$1" 2>/dev/null || :
}

# clean_up: ends what run_guest has started, wherever it is, and removes RUN
clean_up() {
	trap '' INT TERM HUP
	end_children KILL
	# The last of the guest's processes may still be writing there.
	rm -rf "$RUN" 2>/dev/null || :
}
