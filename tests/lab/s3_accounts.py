"""The accounts of the lab's SeaweedFS, and the sessions that it lets begin."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

READER, WRITER = "test-reader", "test-writer"
"""Who may read and list, and who may write and delete, too; their secret key is that of who may do it all."""
ROLE = "arn:aws:iam::000000000000:role/shipper"
SHORT_S = 8
"""How long a session is when nobody asks for more, which is a quarter of an hour at least."""


def options(home: Path, access: str, secret: str) -> list[str]:
    """SeaweedFS's, for the accounts and for sessions; what they name is written to `home`."""
    accounts, sessions = home / "accounts.json", home / "sessions.json"
    rights = {
        access: ["Admin", "Read", "Write", "List", "Tagging"],
        READER: ["Read", "List"],
        WRITER: ["Read", "List", "Write"],
    }
    identities = [
        {"name": name, "credentials": [{"accessKey": name, "secretKey": secret}], "actions": actions}
        for name, actions in rights.items()
    ]
    accounts.write_text(json.dumps({"identities": identities}), encoding="ascii")
    sessions.write_text(json.dumps(_sessions()), encoding="ascii")
    return [f"-s3.config={accounts}", f"-s3.iam.config={sessions}"]


def _sessions() -> dict[str, object]:
    everything = {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["*"]}
    anybody = {"Effect": "Allow", "Principal": "*", "Action": ["sts:AssumeRole"]}
    return {
        "sts": {
            "tokenDuration": f"{SHORT_S}s",
            "maxSessionLength": "1h",
            "issuer": "lab",
            "signingKey": base64.b64encode(bytes(32)).decode(),
        },
        "policy": {"defaultEffect": "Deny", "storeType": "memory"},
        "policies": [{"name": "all", "document": policy(everything)}],
        "roles": [
            {
                "roleName": "shipper",
                "roleArn": ROLE,
                "trustPolicy": policy(anybody),
                "attachedPolicies": ["all"],
            }
        ],
    }


def policy(statement: Mapping[str, object]) -> dict[str, object]:
    return {"Version": "2012-10-17", "Statement": [statement]}
