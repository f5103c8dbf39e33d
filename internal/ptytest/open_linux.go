package ptytest

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// Open opens a terminal of the system with so many columns: what a program
// writes to its end comes out at ours.
func Open(t *testing.T, columns uint16) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	control := func(request uintptr, data unsafe.Pointer) {
		t.Helper()
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ours.Fd(), request, uintptr(data)); errno != 0 {
			t.Fatalf("set up terminal: %v", errno)
		}
	}
	var locked, number int32
	control(syscall.TIOCSPTLCK, unsafe.Pointer(&locked))
	control(syscall.TIOCGPTN, unsafe.Pointer(&number))
	SetSize(t, ours, columns, 24)
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	return ours, theirs
}

// SetSize gives a terminal another size, and tells the program that runs there.
func SetSize(t *testing.T, ours *os.File, columns, rows uint16) {
	t.Helper()
	size := [4]uint16{rows, columns}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ours.Fd(), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size))); errno != 0 {
		t.Fatalf("size terminal: %v", errno)
	}
}
