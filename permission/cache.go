package permission

import "sync"

// Key identifies the rules of a workspace: the version of its stored rules and
// the content of its file.
type Key struct {
	Workspace    string
	Version      int64
	ManifestHash string
}

// maxCached is the most workspaces in a Cache.
const maxCached = 64

// Cache keeps the newest compiled rules of each workspace. It never returns rules
// older than the key. It is safe for concurrent use; the zero value is empty.
type Cache struct {
	mu      sync.Mutex // guards the fields below
	kept    map[string]cached
	dropped uint64 // counts calls of Drop
}

type cached struct {
	key    Key
	policy *Policy
}

// Get returns the policy of a key and loads it if needed. A failed load is not
// kept. Concurrent callers may both load.
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
	if c.dropped == dropped { // else the loaded rules may be outdated
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

// Drop removes the rules of a workspace. A Get after Drop returns rules loaded
// after Drop was called.
func (c *Cache) Drop(workspace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped++
	delete(c.kept, workspace)
}
