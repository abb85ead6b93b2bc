#!/bin/sh
# Makes the certificates of the tests beside this: sh make.sh, with OpenSSL 3.0 or 3.1, where a certificate without
# extensions is one of the first version. They are valid for ten years; the tests bring their own moments.
set -eu
cd "$(dirname "$0")"
days=3650

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }
request() { key "$1"; openssl req -new -key "$1.key" -subj "/CN=$2" -out "$1.csr"; }
# Certificate, common name, issuer, extensions (none: the first version).
issue() {
    request "$1" "$2"
    if [ -n "${4-}" ]; then
        printf '%b' "$4" >"$1.ext"
        openssl x509 -req -in "$1.csr" -CA "$3.pem" -CAkey "$3.key" -CAcreateserial -days $days -extfile "$1.ext" -out "$1.pem"
    else
        openssl x509 -req -in "$1.csr" -CA "$3.pem" -CAkey "$3.key" -CAcreateserial -days $days -out "$1.pem"
    fi
}
# Certificate, common name, extensions.
root() {
    request "$1" "$2"
    printf '%b' "$3" >"$1.ext"
    openssl x509 -req -in "$1.csr" -signkey "$1.key" -days $days -extfile "$1.ext" -out "$1.pem"
}

root root 'Root' 'basicConstraints=critical,CA:TRUE\n'
root namesake 'Root' 'basicConstraints=critical,CA:TRUE\n'
root narrow 'Narrow' 'basicConstraints=critical,CA:TRUE\nnameConstraints=critical,permitted;DNS:example.test\n'
root short 'Short' 'basicConstraints=critical,CA:TRUE,pathlen:0\n'
request old 'Old'
openssl x509 -req -in old.csr -signkey old.key -days $days -out old.pem
openssl req -x509 -key old.key -days $days -subj /CN=localhost -out own.pem

issue plain localhost root
issue of-old localhost old
issue named localhost root 'subjectAltName=DNS:db.example.test,IP:10.0.0.1\n'
issue mail localhost root 'subjectAltName=email:a@example.test\n'
issue client-only localhost root 'extendedKeyUsage=clientAuth\n'
issue critical localhost root 'subjectAltName=DNS:localhost\n1.2.3.4=critical,ASN1:UTF8String:x\n'
issue authority localhost root 'basicConstraints=CA:TRUE\nsubjectAltName=DNS:localhost\n'
issue outside localhost narrow 'subjectAltName=DNS:localhost\n'
issue common db.other.test narrow 'basicConstraints=CA:FALSE\n'
issue middle 'Middle' root 'basicConstraints=critical,CA:TRUE\n'
issue below-middle localhost middle
issue no-middle 'Not a middle' root 'basicConstraints=CA:FALSE\n'
issue below-no-middle localhost no-middle
issue old-middle 'Old middle' root
issue below-old-middle localhost old-middle
issue short-middle 'Short middle' short 'basicConstraints=critical,CA:TRUE\n'
issue below-short-middle localhost short-middle

rm -f ./*.key ./*.csr ./*.ext ./*.srl
