"""Decide which global variables of a server a recovered one gets, and which not, with the reasons. Pure.

A statement that is logged as text can give something else with another value of almost any of them, so that
all are given but for the groups in NOT_GIVEN. What is given cannot harm, whoever wrote the record: it is a
number, ON or OFF, or some letters for one of the variables in WORDS. None of those names a file, a program, a
plugin, a host or statements.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from zbackup.engines.mysql.sql.quoting import literal


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALL: Final = "settings"
"""In Record.server: "changed" if all variables are recorded that are given and had not the value that the
program has built in. Earlier versions recorded fewer."""

CHANGED: Final = "changed"

PACKET: Final = "max_allowed_packet"
"""An applier has one of its own, see recovery.packets."""

AT_START: Final = _names(
    """
    character_set_server collation_server default_table_encryption explicit_defaults_for_timestamp
    ft_max_word_len ft_min_word_len ft_query_expansion_limit innodb_autoinc_lock_mode
    innodb_default_encryption_key_id innodb_default_row_format innodb_encrypt_tables innodb_file_per_table
    innodb_ft_max_token_size innodb_ft_min_token_size innodb_native_foreign_keys innodb_rollback_on_timeout
    innodb_strict_mode aria_encrypt_tables lower_case_table_names ngram_token_size sql_mode old_mode
    default_storage_engine partial_revokes time_zone
    """
)
"""Given as options, see clone.server_options: most can be given at a start only."""

AT_EACH_START: Final = _names(
    """
    big_tables cte_max_recursion_depth default_week_format div_precision_increment group_concat_max_len
    max_heap_table_size max_recursive_iterations max_sort_length max_sp_recursion_depth
    """
)
"""Given as options as well, to servers that are started again. Any other name is no option: there are options
that are no variables, such as --initialize and --user."""

NO_LIMIT: Final[Mapping[str, str]] = {"cte_max_recursion_depth": "4294967295"}
"""Limits that change no row, but stop a statement. A replay has none of them: a session may have raised its
own, of which the log says nothing."""

WORDS: Final = _names(
    """
    alter_algorithm aria_stats_method block_encryption_mode character_set_collations
    character_set_filesystem column_compression_zlib_strategy completion_type concurrent_insert
    default_collation_for_utf8mb4 default_regex_flags default_storage_engine default_tmp_storage_engine
    delay_key_write enforce_storage_engine ft_boolean_syntax histogram_type
    innodb_instant_alter_column_allowed innodb_stats_method lc_messages lc_time_names mhnsw_default_distance
    myisam_stats_method new_mode note_verbosity old_alter_table old_mode
    optimizer_adjust_secondary_key_costs optimizer_switch sql_mode storage_engine
    system_versioning_alter_history system_versioning_asof time_zone transaction_isolation tx_isolation
    updatable_views_with_limit use_stat_tables
    """
)
"""Variables that are given words."""

_GIVEN_ALL_THE_SAME: Final = _names(
    """
    aria_page_checksum big_tables binlog_direct_non_transactional_updates innodb_compression_default
    innodb_deadlock_detect innodb_force_primary_key innodb_ft_enable_stopword
    innodb_instant_alter_column_allowed innodb_lock_wait_timeout innodb_prefix_index_cluster_optimization
    innodb_read_only_compressed innodb_snapshot_isolation innodb_stats_method innodb_table_locks
    lock_wait_timeout max_heap_table_size myisam_data_pointer_size myisam_stats_method aria_stats_method
    """
)

LATER: Final = _names(
    """
    completion_type innodb_deadlock_detect innodb_lock_wait_timeout innodb_table_locks lock_wait_timeout
    transaction_isolation tx_isolation
    """
)
"""Given behind a replay, which they could stop: what an applier writes does not depend on them."""

NOT_GIVEN: Final[Mapping[str, str]] = {
    "names files, directories, programs or plugins of the host": """
        basedir character_sets_dir core_file datadir ft_stopword_file *_file ignore_db_dirs init_file
        keyring_* lc_messages_dir log_bin log_bin_basename log_bin_index log_error* pid_file plugin_*
        relay_log* secure_*_priv *_load_tmpdir tmpdir *_private_key_path *_public_key_path
        """,
    "names statements, roles, schemas or servers": """
        authentication_policy binlog_do_db binlog_ignore_db init_* mandatory_roles persist_*
        proxy_protocol_networks redirect_url replicate_* report_* wsrep_*
        """,
    "is about the host's network, logins and passwords": """
        admin_* auto_generate_certs back_log bind_address caching_sha2_password_* check_proxy_users
        connect_timeout create_admin_listener_thread default_password_lifetime
        disconnect_on_expired_password extra_* hostname generated_random_password_length host_cache_size
        interactive_timeout local_infile max_connect_errors max_connections max_password_errors
        max_user_connections mysqlx_* net_* offline_mode password_* port protocol_compression_algorithms
        require_secure_transport secure_auth sha256_password_* skip_* socket ssl_*
        strict_password_validation tcp_* tls_* validate_password* wait_timeout idle_*_timeout
        activate_all_roles_on_login activate_mandatory_roles print_identified_with_as_hex
        """,
    "is a size or a speed of the host, and changes no result": """
        analyze_max_length aria_* *_alloc_block_size *_buffer_size *_cache_* *_cache *_prealloc_size
        connection_memory_* container_aware debug* delayed_* encrypt_tmp_* external_table_* flush
        flush_time global_connection_memory_* histogram_generation_* innodb_*
        internal_tmp_mem_storage_engine join_* key_* large_page* locked_in_memory log_tc_size
        max_delayed_threads max_digest_length max_insert_delayed_threads max_prepared_stmt_count
        max_rowid_filter_size max_session_mem_used max_tmp_* max_write_lock_count metadata_locks_* myisam_*
        net_buffer_length open_files_limit optimizer_trace* parser_max_mem_size performance_schema*
        progress_report_time query_cache_* range_optimizer_max_mem_size read_binlog_speed_limit
        regexp_stack_limit regexp_time_limit rowid_merge_buff_size server_memory slow_launch_time sync_*
        table_open_cache* temptable_* thread_* tmp_* userstat low_priority_updates
        """,
    "is a duty of the original, or its log, which a recovered server has in its own way": """
        allow_suspicious_udfs audit_* autocommit automatic_sp_privileges binlog_* clone_*
        disabled_storage_engines encrypt_binlog enforce_gtid_consistency event_scheduler expire_logs_days
        general_log group_replication_* gtid_* keep_files_on_create log_* long_query_time master_*
        max_binlog_* max_execution_time max_relay_log_size max_statement_time min_examined_row_limit
        mysql_firewall* persisted_globals_load profiling* rbr_exec_mode read_only replica_* replication_*
        rpl_* secure_timestamp server_* session_track_* slave_* slow_query_log source_verify_checksum
        sql_log_* sql_replica_skip_counter sql_slave_skip_counter super_read_only
        table_encryption_privilege_check terminology_use_previous transaction_read_only tx_read_only
        xa_detach_on_prepare
        """,
    "changes what a session is shown or refused, and no row": """
        end_markers_in_json explain_* information_schema_stats_expiry max_error_count max_join_size show_*
        sql_big_selects sql_notes sql_safe_updates sql_select_limit sql_warnings
        """,
    "comes with each session or statement, in the log as well": """
        character_set_client character_set_connection character_set_database character_set_results
        collation_connection collation_database
        """,
    "is a size or a duty of an engine or a plugin that most servers do not have": """
        columnstore_* feedback_* mroonga_* rocksdb_* s3_* spider_*
        """,
    "says what the server is, and cannot be chosen": """
        build_id character_set_system date_format datetime_format have_* ignore_builtin_innodb
        innodb_version large_files_support license lower_case_file_system protocol_version system_time_zone
        time_format version version_*
        """,
}

_PATTERNS: Final = [(reason, pattern) for reason, text in NOT_GIVEN.items() for pattern in text.split()]

LOGGED: Final = _names(
    """
    auto_increment_increment auto_increment_offset character_set_server check_constraint_checks
    collation_server default_collation_for_utf8mb4 default_table_encryption explicit_defaults_for_timestamp
    foreign_key_checks lc_time_names sql_auto_is_null sql_if_exists sql_mode sql_require_primary_key
    time_zone unique_checks
    """
)
"""Stand beside a statement in the log, so that its text gives the same with other global values."""

_ONLY_PLANS: Final = (
    *("optimizer_*", "deadlock_*", "histogram_*", "expensive_*", "mhnsw_ef_*"),
    *("*_stats_method", "use_stat_tables", "eq_range_index_dive_limit", "max_seeks_for_key"),
    *("max_length_for_sort_data", "concurrent_insert", "delay_key_write"),
)
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,10})?")
_WORDS: Final = re.compile(r"[A-Za-z0-9_=,:+<>()~*\"&| -]{0,2000}")
_BOOL: Final = ("ON", "OFF")


def why_not_given(name: str) -> str:
    """Return the reason for which a variable is not given; "" if it is."""
    if name in AT_START or name in _GIVEN_ALL_THE_SAME:
        return ""
    return next((reason for reason, pattern in _PATTERNS if fnmatchcase(name, pattern)), "")


def given(name: str, value: str) -> str:
    """The value as SET GLOBAL takes it; "" for what no recovered server is given."""
    if why_not_given(name):
        return ""
    if _NUMBER.fullmatch(value) or value in _BOOL:
        return value
    return literal(value) if name in WORDS and _WORDS.fullmatch(value) else ""


def option(name: str, value: str) -> str:
    """The value as an option that a server is started with; "" for what is not given at its start."""
    return given(name, value) if name in AT_EACH_START else ""


def depends(name: str) -> bool:
    """Whether what a logged statement gives can depend on the global value of a variable."""
    if why_not_given(name) or name in LOGGED or name in LATER or name in NO_LIMIT:
        return False
    return not any(fnmatchcase(name, pattern) for pattern in _ONLY_PLANS)


def changed(variables: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    """Select what is recorded of `variables`: those among `names`, without their built-in values, that are
    given."""
    found = {
        name: variables[name] for name in sorted(names & variables.keys()) if given(name, variables[name])
    }
    return found | {ALL: CHANGED}
