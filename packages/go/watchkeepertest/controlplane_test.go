package watchkeepertest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// This file starts a control plane as controller-runtime's envtest does: the programs kube-apiserver and etcd from one
// directory, with the flags, certificates and polling of envtest. envtest_test.go uses it.

const (
	// startTimeout and stopTimeout are envtest's.
	startTimeout = 20 * time.Second
	stopTimeout  = 20 * time.Second
	pollInterval = 100 * time.Millisecond
)

// controlPlane is a running pair of programs, and the CA of its users.
type controlPlane struct {
	port  int
	users *authority
}

// assets returns the directory of the programs: $KUBEBUILDER_ASSETS, or a new one.
func assets(t *testing.T) string {
	if directory := os.Getenv("KUBEBUILDER_ASSETS"); directory != "" {
		return directory
	}
	program := os.Getenv("WATCHKEEPER_PROGRAM")
	if program == "" {
		program = "watchkeeper"
	}
	directory := filepath.Join(t.TempDir(), "assets")
	if output, err := exec.Command(program, "envtest-assets", directory).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return directory
}

func startControlPlane(t *testing.T) *controlPlane {
	directory, certificates := assets(t), t.TempDir()
	etcd, server := freePort(t), freePort(t)
	etcdURL := fmt.Sprintf("http://127.0.0.1:%d", etcd)
	start(t, filepath.Join(directory, "etcd"), etcdURL+"/health",
		"--listen-peer-urls=http://localhost:0",
		"--data-dir="+t.TempDir(),
		"--listen-client-urls="+etcdURL,
		"--advertise-client-urls="+etcdURL,
		"--unsafe-no-fsync",
	)
	users := newAuthority(t)
	write(t, certificates, "client-cert-auth-ca.crt", users.pem)
	serving := newAuthority(t)
	certificate, key := serving.sign(t, pkix.Name{CommonName: "localhost"}, x509.ExtKeyUsageServerAuth)
	write(t, certificates, "apiserver.crt", certificate)
	write(t, certificates, "apiserver.key", key)
	write(t, certificates, "sa-signer.key", rsaKey(t))
	serverURL := fmt.Sprintf("https://127.0.0.1:%d", server)
	start(t, filepath.Join(directory, "kube-apiserver"), serverURL+"/readyz",
		"--advertise-address=127.0.0.1",
		"--allow-privileged=true",
		"--authorization-mode=RBAC",
		"--bind-address=127.0.0.1",
		"--cert-dir="+certificates,
		"--client-ca-file="+filepath.Join(certificates, "client-cert-auth-ca.crt"),
		"--disable-admission-plugins=ServiceAccount",
		"--etcd-servers="+etcdURL,
		fmt.Sprintf("--secure-port=%d", server),
		"--service-account-issuer="+serverURL+"/",
		"--service-account-key-file="+filepath.Join(certificates, "sa-signer.key"),
		"--service-account-signing-key-file="+filepath.Join(certificates, "sa-signer.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file="+filepath.Join(certificates, "apiserver.crt"),
		"--tls-private-key-file="+filepath.Join(certificates, "apiserver.key"),
	)
	return &controlPlane{port: server, users: users}
}

// addUser returns the configuration of a user with a client certificate.
func (c *controlPlane) addUser(t *testing.T, name string, groups ...string) *rest.Config {
	subject := pkix.Name{CommonName: name, Organization: groups}
	certificate, key := c.users.sign(t, subject, x509.ExtKeyUsageClientAuth)
	return &rest.Config{
		Host: fmt.Sprintf("127.0.0.1:%d", c.port),
		TLSClientConfig: rest.TLSClientConfig{
			Insecure: true,
			CertData: certificate,
			KeyData:  key,
		},
		QPS: -1,
	}
}

// start starts a program, polls until it is healthy, and stops it at the end of the test: by SIGTERM, with a deadline.
func start(t *testing.T, program, healthURL string, arguments ...string) {
	command := exec.Command(program, arguments...)
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		command.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s ended with %v: %s", program, err, log.Bytes())
			}
		case <-time.After(stopTimeout):
			command.Process.Kill()
			t.Errorf("%s did not stop on SIGTERM", program)
		}
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	eventually(t, program+" is healthy", startTimeout, func(context.Context) (bool, error) {
		select {
		case err := <-ended:
			ended <- err
			return false, fmt.Errorf("it ended: %v: %s", err, log.Bytes())
		default:
		}
		answer, err := client.Get(healthURL)
		if err != nil {
			return false, nil
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK, nil
	})
}

// eventually polls until a condition is true. An error ends it at once.
func eventually(t *testing.T, what string, timeout time.Duration, is func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for {
		done, err := is(ctx)
		switch {
		case err != nil:
			t.Fatalf("%s: %v", what, err)
		case done:
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		case <-time.After(pollInterval):
		}
	}
}

// freePort returns a port that was free a moment ago, as envtest does.
func freePort(t *testing.T) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func write(t *testing.T, directory, name string, content []byte) {
	if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// authority signs certificates for programs and users.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := template(pkix.Name{CommonName: "envtest-environment", Organization: []string{"envtest"}})
	template.KeyUsage |= x509.KeyUsageCertSign
	template.IsCA, template.BasicConstraintsValid = true, true
	signed, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(signed)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key, inPEM("CERTIFICATE", signed)}
}

// sign returns a certificate and its key, both PEM.
func (a *authority) sign(t *testing.T, subject pkix.Name, usage x509.ExtKeyUsage) (certificate, key []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := template(subject)
	template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	if usage == x509.ExtKeyUsageServerAuth {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		template.DNSNames = []string{"localhost"}
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return inPEM("CERTIFICATE", signed), inPEM("PRIVATE KEY", encoded)
}

func template(subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(7 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
	}
}

func rsaKey(t *testing.T) []byte {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

func inPEM(kind string, content []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
}
