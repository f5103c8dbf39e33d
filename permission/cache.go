package permission

import "sync"

// Key says which rules of a workspace are meant: those of a version of its
// stored rules and of a content of its file.
type Key struct {
	Workspace    string
	Version      int64
	ManifestHash string
}

// maxCached bounds how many workspaces a Cache knows at a time.
const maxCached = 64

// Cache keeps the compiled rules of workspaces, the newest of each. What is
// asked for by a key is never older than that key. It is safe for concurrent
// use; the zero value is empty.
type Cache struct {
	mu      sync.Mutex // guards the fields below
	kept    map[string]cached
	dropped uint64 // counts what was dropped
}

type cached struct {
	key    Key
	policy *Policy
}

// Get is the policy of a key, loaded where it is not kept. What load returns
// with an error is not kept. Two who ask at the same time may both load.
func (c *Cache) Get(key Key, load func() (*Policy, error)) (*Policy, error) {
	c.mu.Lock()
	have, ok := c.kept[key.Workspace]
	dropped := c.dropped
	c.mu.Unlock()
	if ok && have.key == key {
		return have.policy, nil
	}
	policy, err := load()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped == dropped { // or what was loaded may be what was dropped
		c.keep(key, policy)
	}
	return policy, nil
}

func (c *Cache) keep(key Key, policy *Policy) {
	if c.kept == nil {
		c.kept = map[string]cached{}
	}
	if _, ok := c.kept[key.Workspace]; !ok && len(c.kept) >= maxCached {
		for other := range c.kept {
			delete(c.kept, other)
			break
		}
	}
	c.kept[key.Workspace] = cached{key, policy}
}

// Drop forgets the rules of a workspace. Whoever asks after Drop has returned
// gets rules loaded after it was called.
func (c *Cache) Drop(workspace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped++
	delete(c.kept, workspace)
}
