package store_test

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
)

// sumOfBytes is the checksum that stored data has, over the bytes of all values.
func sumOfBytes(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func TestSumOf_isACastagnoliChecksumOverNumbersAndLengths(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", "\x00\xff", strings.Repeat("long enough for every loop, ", 40)} {
		for _, number := range []int64{0, 1, -1, 1 << 62, 0x0102030405060708} {
			var raw []byte
			raw = binary.BigEndian.AppendUint64(raw, uint64(number))
			raw = append(binary.BigEndian.AppendUint64(raw, uint64(len(text))), text...)
			raw = append(binary.BigEndian.AppendUint64(raw, uint64(len(text))), text...)
			raw = binary.BigEndian.AppendUint64(raw, uint64(number))
			want := int64(sumOfBytes(raw)) + 1
			if got := store.SumOf(number, text, []byte(text), store.Sum(number)); got != want {
				t.Errorf("sum of %d and %q is %x, want %x", number, text, got, want)
			}
		}
	}
}

func TestSum_nextIsStable(t *testing.T) {
	t.Parallel()
	body := []byte(`{"seq":7}`)
	record := sumOfBytes(append(binary.BigEndian.AppendUint64(nil, uint64(len(body))), body...))
	var place []byte
	for _, n := range []uint64{99, 7, 3, uint64(len("message_added"))} {
		place = binary.BigEndian.AppendUint64(place, n)
	}
	place = binary.BigEndian.AppendUint64(append(place, "message_added"...), uint64(record))
	want := store.Sum(int64(record)<<32 | int64(sumOfBytes(place)))
	if got := store.Sum(99).Next(store.Logged{Seq: 7, Version: 3, Kind: "message_added", Body: body}); got != want {
		t.Errorf("the next sum is %x, want %x", got, want)
	}
}

// The sum of a row is checked for every session of a listing.
func TestSumOf_allocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	r := store.Logged{Seq: 1_000_000, Kind: "message_added"}
	if n := testing.AllocsPerRun(100, func() {
		r.Seq++
		if store.SumOf(r.Kind, r.Seq, store.Sum(r.Seq)) == 0 {
			t.Fatal("no sum")
		}
	}); n != 0 {
		t.Errorf("a sum makes %v allocations", n)
	}
}

// A load follows every record it reads, so following one must cost nothing.
func TestSum_followingAllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	r := store.Logged{Seq: 1, Version: 1, Kind: "message_added", Body: []byte(`{"seq":1}`)}
	sum := store.Sum(0).Next(r)
	if n := testing.AllocsPerRun(100, func() {
		chain := store.Chain{ID: "s"}
		if err := chain.Follow(r, sum); err != nil {
			t.Fatal(err)
		}
		if err := sum.Check("s", r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("following a record makes %v allocations", n)
	}
}
