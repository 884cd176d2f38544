/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The firmware of a virtual machine that only uses its memory, in place of a BIOS: 64 KB that end at 4 GB. It fills
 * the memory from 1 MB to 32 MB, each word with a number of its own, and from there to "top" one word in 64 bytes. Then
 * it writes a counter to one page after the other of those from 2 MB to 3 MB, for ever. The word at 1 MB, which is 0 at
 * first, is the number of rounds.
 */
	.set memory, 0x100000
	.set window, 0x200000
	.set window_end, 0x300000
	.set memory_end, 0x2000000
	.set pace, 2000

	.text
	.globl _start
_start:
	.code32
protected:
	mov	$16, %eax
	mov	%eax, %ds
	mov	$memory + 4, %edi
1:	imul	$0x9e3779b1, %edi, %eax
	mov	%eax, (%edi)
	add	$4, %edi
	cmp	$memory_end, %edi
	jb	1b
	jmp	3f
2:	imul	$0x9e3779b1, %edi, %eax
	mov	%eax, (%edi)
	add	$64, %edi
3:	cmp	$top, %edi
	jb	2b

	xor	%ebx, %ebx
4:	mov	$window, %edi
5:	inc	%ebx
	mov	%ebx, (%edi)
	mov	$pace, %ecx
6:	dec	%ecx
	jnz	6b
	add	$4096, %edi
	cmp	$window_end, %edi
	jb	5b
	incl	memory
	jmp	4b

	.code16
real:
	cli
	lgdtl	%cs:table - _start
	mov	%cr0, %eax
	or	$1, %al
	mov	%eax, %cr0
	ljmpl	$8, $protected

	.balign	8
segments:
	.quad	0, 0x00cf9b000000ffff, 0x00cf93000000ffff
table:
	.word	. - segments - 1
	.long	segments

	/* The first instruction */
	.org	0xfff0
	jmp	real
	.org	0x10000
