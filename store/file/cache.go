package file

import (
	"os"
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// known is what a store remembers of a session between two writes, so that an
// append need not read the whole document and the whole tail again. No write
// relies on it alone: the head is read from the disk every time.
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

// cache is bounded: when it is full it is emptied, and files are read again.
type cache struct {
	mu       sync.Mutex // guards sessions
	sessions map[store.Ref]known
}

const maxKnown = 1024

func (c *cache) get(r store.Ref) known {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[r]
}

func (c *cache) put(r store.Ref, k known) {
	k.tail.records = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil || len(c.sessions) >= maxKnown {
		c.sessions = map[store.Ref]known{}
	}
	c.sessions[r] = k
}

func (c *cache) forget(r store.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, r)
}
