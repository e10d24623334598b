package watchkeeper

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Refused is an error answer of the server.
type Refused struct {
	Code    int
	Message string
}

func (r *Refused) Error() string { return fmt.Sprintf("%d: %s", r.Code, r.Message) }

// wire is an administrator's connection to a server.
type wire struct {
	url, token string
	client     *http.Client
}

func newWire(url, token string, authority []byte) (*wire, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("the kubeconfig has no certificate")
	}
	// One connection per request: a fault may break open ones.
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	return &wire{url: url, token: token, client: &http.Client{Transport: transport}}, nil
}

// ask sends a request below /testing/v1/ and decodes the answer, unless answer is nil.
func (w *wire) ask(method, path string, body, answer any) error {
	var sent io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, w.url+"/testing/v1/"+path, sent)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+w.token)
	response, err := w.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		var status struct{ Message string }
		if json.Unmarshal(text, &status) != nil || status.Message == "" {
			status.Message = string(bytes.TrimSpace(text))
		}
		return &Refused{Code: response.StatusCode, Message: status.Message}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

type clock struct {
	Now time.Time `json:"now"`
}

// Now returns the server's time.
func (c *Cluster) Now() (time.Time, error) {
	var at clock
	err := c.wire.ask(http.MethodGet, "clock", nil, &at)
	return at.Now, err
}

// Advance moves the server's clock forward; timers on the way fire.
func (c *Cluster) Advance(by time.Duration) (time.Time, error) {
	return c.changeClock(map[string]any{"advance": by.String()})
}

// Freeze stops the server's clock; only Advance moves it.
func (c *Cluster) Freeze() (time.Time, error) { return c.changeClock(map[string]any{"frozen": true}) }

// Thaw lets the server's clock run again.
func (c *Cluster) Thaw() (time.Time, error) { return c.changeClock(map[string]any{"frozen": false}) }

func (c *Cluster) changeClock(change map[string]any) (time.Time, error) {
	var at clock
	err := c.wire.ask(http.MethodPost, "clock", change, &at)
	return at.Now, err
}

// WaitIdle waits until there is no open request and no activity for a while, in real time. Open watches do not count.
func (c *Cluster) WaitIdle(quiet, timeout time.Duration) error {
	body := map[string]string{"quiet": quiet.String(), "timeout": timeout.String()}
	return c.wire.ask(http.MethodPost, "idle", body, nil)
}

// Request selects the requests of a fault. Empty fields match everything.
type Request struct {
	User      string `json:"user,omitempty"`
	UserAgent string `json:"userAgent,omitempty"`
	Verb      string `json:"verb,omitempty"`
	// Group is an API group; a pointer to "" is the core group.
	Group    *string `json:"group,omitempty"`
	Resource string  `json:"resource,omitempty"`
	// Subresource of the object; a pointer to "" is the object itself.
	Subresource *string `json:"subresource,omitempty"`
	Namespace   string  `json:"namespace,omitempty"`
	Name        string  `json:"name,omitempty"`
}

// Fault is an injected fault. See Fail, LoseAnswer and the server's /testing/v1/openapi.json.
type Fault struct {
	Request Request `json:"request"`
	// Nth is the first matching request that is affected; 0 and 1 are the first.
	Nth int `json:"nth,omitempty"`
	// Times is the number of affected requests; 0 is unlimited.
	Times int `json:"times,omitempty"`
	// Probability that a matching request is affected; 0 means 1.
	Probability float64 `json:"probability,omitempty"`
	// Seed of the random choices.
	Seed uint64 `json:"seed,omitempty"`
	// Action is the effect: "forbid", or map[string]any{"delay": "2s"}.
	Action any `json:"action"`
}

// Fail is the action that answers with an error instead of handling the request.
func Fail(code int, reason string) any {
	status := map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure"}
	status["code"], status["reason"], status["message"] = code, reason, "on purpose"
	return map[string]any{"fail": status}
}

// LoseAnswer is the action that handles and stores a request, and breaks the connection before the answer.
func LoseAnswer() any { return map[string]any{"cut": "beforeAnswer"} }

// AddFault adds a fault and returns its ID.
func (c *Cluster) AddFault(fault Fault) (int, error) {
	var planned struct{ ID int }
	err := c.wire.ask(http.MethodPost, "faults", fault, &planned)
	return planned.ID, err
}

// RemoveFault removes a fault.
func (c *Cluster) RemoveFault(id int) error {
	return c.wire.ask(http.MethodDelete, fmt.Sprintf("faults/%d", id), nil, nil)
}

// ClearFaults removes all faults.
func (c *Cluster) ClearFaults() error { return c.wire.ask(http.MethodDelete, "faults", nil, nil) }

// Fired is a fault that has fired.
type Fired struct {
	At        time.Time       `json:"at"`
	Rule      *int            `json:"rule"`
	Action    json.RawMessage `json:"action"`
	User      string          `json:"user"`
	UserAgent string          `json:"userAgent"`
	Verb      string          `json:"verb"`
	Path      string          `json:"path"`
	Object    string          `json:"object"`
}

// Fired returns the faults that have fired, in order.
func (c *Cluster) Fired() (fired []Fired, err error) {
	err = c.wire.ask(http.MethodGet, "fired", nil, &fired)
	return fired, err
}

// Write is a write with its outcome.
type Write struct {
	At          time.Time `json:"at"`
	User        string    `json:"user"`
	UserAgent   string    `json:"userAgent"`
	Verb        string    `json:"verb"`
	Kind        string    `json:"kind"`
	Subresource string    `json:"subresource"`
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	// Previous is the replaced version; nil if there was none, or if nothing changed.
	Previous *uint64 `json:"previous"`
	// Revision is nil if nothing changed.
	Revision *uint64 `json:"revision"`
	// Outcome is "unchanged", or an object: created, changed or deleted.
	Outcome json.RawMessage `json:"outcome"`
}

// Writes returns the log of writes.
func (c *Cluster) Writes() (writes []Write, err error) {
	err = c.wire.ask(http.MethodGet, "writes", nil, &writes)
	return writes, err
}

// ClearWrites clears the log of writes.
func (c *Cluster) ClearWrites() error { return c.wire.ask(http.MethodDelete, "writes", nil, nil) }

// Snapshot is a saved state of all objects.
type Snapshot struct {
	ID      int
	cluster *Cluster
}

// Snapshot saves the current state of all objects.
func (c *Cluster) Snapshot() (*Snapshot, error) {
	snapshot := &Snapshot{cluster: c}
	if err := c.wire.ask(http.MethodPost, "snapshots", nil, snapshot); err != nil {
		return nil, err
	}
	return snapshot, nil
}

// Restore restores the saved state; watches see the difference.
func (s *Snapshot) Restore() error {
	return s.cluster.wire.ask(http.MethodPost, fmt.Sprintf("snapshots/%d", s.ID), nil, nil)
}

// Forget deletes the snapshot.
func (s *Snapshot) Forget() error {
	return s.cluster.wire.ask(http.MethodDelete, fmt.Sprintf("snapshots/%d", s.ID), nil, nil)
}

// Reset restores the initial objects, removes all faults, and clears the records of faults and writes. The clock stays.
func (c *Cluster) Reset() error { return c.wire.ask(http.MethodPost, "reset", nil, nil) }

// Compact drops all history: a watch from an older version gets 410 Gone.
func (c *Cluster) Compact() error { return c.wire.ask(http.MethodPost, "compact", nil, nil) }
