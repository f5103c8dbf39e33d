package file

import (
	"os"
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// known is what a store remembers of a session between two writes, so that an
// append need not read the whole document and the whole tail again. It spares
// work and decides nothing: the head is read from the disk every time.
type known struct {
	file os.FileInfo // a document that was decoded whole and found good
	head head
	tail tail // without records
}

// fits reports whether a document is, as far as the file system can tell, the
// one that was found good.
func (k known) fits(info os.FileInfo) bool {
	return k.file != nil && os.SameFile(k.file, info) && k.file.Size() == info.Size() && k.file.ModTime().Equal(info.ModTime())
}

// memory is bounded: a store of many sessions forgets and reads again.
type memory struct {
	mu       sync.Mutex // guards sessions
	sessions map[store.Ref]known
}

const mostKnown = 1024

func (m *memory) get(r store.Ref) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[r]
}

func (m *memory) put(r store.Ref, k known) {
	k.tail.records = nil
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions == nil || len(m.sessions) >= mostKnown {
		m.sessions = map[store.Ref]known{}
	}
	m.sessions[r] = k
}

func (m *memory) forget(r store.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, r)
}
